// SPDX-License-Identifier: Apache-2.0

#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdint.h>

/// The number of allocations of this process since its start.
uint64_t allocation_count(void);

/// Calls a closure. Its instructions, and those of what it calls, are those of this function in a profile.
void measured(void (*body)(void *), void *context);

#endif
