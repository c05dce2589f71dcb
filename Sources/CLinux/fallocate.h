// SPDX-License-Identifier: Apache-2.0

// Reserves disk space without changing the length of a file. The C library declares this function only with
// _GNU_SOURCE, which Swift does not define.

#ifndef CLINUX_FALLOCATE_H
#define CLINUX_FALLOCATE_H

#include <sys/types.h>

extern int fallocate(int descriptor, int mode, off_t offset, off_t byte_count);

/// Reserves space for bytes at an offset, which may be after the end of the file. Returns 0, or -1 with `errno`.
static inline int reserve_space(int descriptor, off_t offset, off_t byte_count) {
    const int keep_length = 1;
    return fallocate(descriptor, keep_length, offset, byte_count);
}

#endif
