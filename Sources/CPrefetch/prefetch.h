// SPDX-License-Identifier: Apache-2.0

// What Swift has no word for: asking for memory before it is needed.

#ifndef CPREFETCH_H
#define CPREFETCH_H

/// Asks for the cache line of an address that will be written to soon. The address may be any; nothing faults.
static inline void prefetch_for_writing(const void *_Nonnull address) {
    __builtin_prefetch(address, 1);
}

#endif
