// SPDX-License-Identifier: Apache-2.0

// mallopt(3), which Swift's module of the C library does not contain.

#ifndef CLINUX_MALLOC_OPTIONS_H
#define CLINUX_MALLOC_OPTIONS_H

#include <malloc.h>

/// Makes all threads share one arena, so that memory freed by one is available to the others. Returns 1 on success.
static inline int share_memory_between_threads(void) {
#ifdef M_ARENA_MAX
    return mallopt(M_ARENA_MAX, 1);
#else
    // Other C libraries have a single heap.
    return 1;
#endif
}

#endif
