// SPDX-License-Identifier: Apache-2.0

#include <allocations.h>
#include <stdatomic.h>
#include <stddef.h>

// The allocator of glibc under the names that it exports for programs with an allocator of their own.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static _Atomic uint64_t count;

static void increment(void) { atomic_fetch_add_explicit(&count, 1, memory_order_relaxed); }

void *malloc(size_t size) {
    increment();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    increment();
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
    increment();
    return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    increment();
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? 12 : 0;
}

void *aligned_alloc(size_t alignment, size_t size) {
    increment();
    return __libc_memalign(alignment, size);
}

uint64_t allocation_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

__attribute__((noinline)) void measured(void (*body)(void *), void *context) {
    body(context);
    __asm__ volatile("");
}
