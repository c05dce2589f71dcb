// SPDX-License-Identifier: Apache-2.0
//
// Parses the frames of a connection, commands 0, 1 and 2, from a stream split anywhere.

#ifndef SINK_PARSER_H
#define SINK_PARSER_H

#include <stddef.h>
#include <stdint.h>

struct parser {
    // The expected identifier of the next frame with one.
    uint32_t identifier_expected;
    uint64_t frames;
    uint64_t bytes;
    // Set after a frame with an empty token; nothing after it is parsed.
    int probed;
    uint32_t probe_identifier;
    // The error message, if any.
    const char *fault;
};

// Parses all complete frames of `bytes`; returns their length.
size_t parser_feed(struct parser *parser, const uint8_t *bytes, size_t count);

#endif
