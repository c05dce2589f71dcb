// SPDX-License-Identifier: Apache-2.0

// Debian has a folder of its own for it. No flags of pkg-config are needed, which would be missed in builds without
// the trait, too.
#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#include <libpq-fe.h>
#endif
