// SPDX-License-Identifier: Apache-2.0

// mallopt(3), which Swift's module of the C library leaves out.

#ifndef CMALLOC_H
#define CMALLOC_H

#include <malloc.h>

/// Lets all threads take memory from one place, so that what one frees is there for the others. Returns 1, or 0.
static inline int share_memory_between_threads(void) {
#ifdef M_ARENA_MAX
    return mallopt(M_ARENA_MAX, 1);
#else
    // Other C libraries have one place for all.
    return 1;
#endif
}

#endif
