// SPDX-License-Identifier: Apache-2.0

// prctl(2) has a variable number of arguments, which Swift does not support.

#ifndef CLINUX_CORE_FILES_H
#define CLINUX_CORE_FILES_H

#include <sys/prctl.h>

/// Keeps the memory of this process out of core files, and from other processes of its user; not from those of root.
/// A program that it starts is not affected. Returns 0 on success.
static inline int forbid_core_files(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

#endif
