// SPDX-License-Identifier: Apache-2.0

// zlib's header. Its macro `inflateInit2` is not imported by Swift.

#ifndef CZLIB_SHIM_H
#define CZLIB_SHIM_H

#include <zlib.h>

static inline int CZlib_inflateInit2(z_stream *stream, int windowBits) { return inflateInit2(stream, windowBits); }

static inline int CZlib_deflateInit2(z_stream *stream, int level, int windowBits, int memLevel) {
    return deflateInit2(stream, level, Z_DEFLATED, windowBits, memLevel, Z_DEFAULT_STRATEGY);
}

#endif
