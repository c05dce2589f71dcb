// SPDX-License-Identifier: Apache-2.0

// libnghttp2's header.

#ifndef CNGHTTP2_SHIM_H
#define CNGHTTP2_SHIM_H

#include <nghttp2/nghttp2.h>

#endif
