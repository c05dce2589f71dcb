// SPDX-License-Identifier: Apache-2.0

// Taking room on a disk without making a file longer, which the C library shows only to those who ask for more than
// POSIX, and Swift does not ask.

#ifndef CFALLOCATE_H
#define CFALLOCATE_H

#include <sys/types.h>

extern int fallocate(int descriptor, int mode, off_t offset, off_t byte_count);

/// Takes room for bytes at an offset, also behind the end of the file. Returns 0, or -1 with `errno`.
static inline int take_room(int descriptor, off_t offset, off_t byte_count) {
    const int keep_length = 1;
    return fallocate(descriptor, keep_length, offset, byte_count);
}

#endif
