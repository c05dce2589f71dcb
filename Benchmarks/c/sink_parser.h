// SPDX-License-Identifier: Apache-2.0
//
// The frames of one connection, commands 0, 1 and 2, from a stream cut anywhere.

#ifndef SINK_PARSER_H
#define SINK_PARSER_H

#include <stddef.h>
#include <stdint.h>

struct parser {
    // The identifier that the next frame with one must carry.
    uint32_t identifier_expected;
    uint64_t frames;
    uint64_t bytes;
    // Set once a frame with an empty token has come; nothing behind it is parsed.
    int probed;
    uint32_t probe_identifier;
    // Says what is wrong once something is.
    const char *fault;
};

// Parses every whole frame of `bytes`; answers how many bytes they took.
size_t parser_feed(struct parser *parser, const uint8_t *bytes, size_t count);

#endif
