// SPDX-License-Identifier: Apache-2.0

#include "sink_parser.h"

#include "frame.h"

// The content of a frame, without its length.
struct contents {
    uint32_t token_bytes;
    uint32_t payload_bytes;
    uint32_t identifier;
    int has_identifier;
};

static size_t fault(struct parser *parser, const char *sentence) {
    parser->fault = sentence;
    return 0;
}

// The end of a command-0 or command-1 frame, from its token length on; 0 if it is incomplete.
static size_t walk_fields(struct parser *parser, const uint8_t *bytes, size_t count, size_t at,
                          struct contents *contents) {
    if (count < at + 2) return 0;
    contents->token_bytes = get16(bytes + at);
    if (contents->token_bytes > TOKEN_BYTES_MAX) return fault(parser, "The token length is over its limit.");
    at += 2 + contents->token_bytes;
    if (count < at + 2) return 0;
    contents->payload_bytes = get16(bytes + at);
    if (contents->payload_bytes > PAYLOAD_BYTES_MAX) return fault(parser, "The payload length is over its limit.");
    at += 2 + contents->payload_bytes;
    return count < at ? 0 : at;
}

static size_t read_item(struct parser *parser, const uint8_t *data, uint8_t item, uint16_t bytes,
                        struct contents *contents) {
    switch (item) {
    case 1: contents->token_bytes = bytes; break;
    case 2: contents->payload_bytes = bytes; break;
    case 3:
        if (bytes != 4) return fault(parser, "An identifier item is not four bytes long.");
        contents->identifier = get32(data);
        contents->has_identifier = 1;
        break;
    case 4:
        if (bytes != 4) return fault(parser, "An expiry item is not four bytes long.");
        break;
    case 5:
        if (bytes != 1) return fault(parser, "A priority item is not one byte long.");
        break;
    default: return fault(parser, "An item has an unknown number.");
    }
    return 1;
}

// The end of a command-2 frame; 0 if it is incomplete.
static size_t walk_items(struct parser *parser, const uint8_t *bytes, size_t count, struct contents *contents) {
    if (count < 5) return 0;
    uint32_t length = get32(bytes + 1);
    if (length > ITEMS_BYTES_MAX) return fault(parser, "The frame length is over its limit.");
    size_t end = 5 + (size_t)length;
    if (count < end) return 0;
    unsigned seen = 0;
    for (size_t at = 5; at < end;) {
        if (end - at < 3) return fault(parser, "An item is cut off by the end of its frame.");
        uint8_t item = bytes[at];
        uint16_t item_bytes = get16(bytes + at + 1);
        at += 3;
        if (item_bytes > end - at) return fault(parser, "An item is longer than its frame.");
        if (!read_item(parser, bytes + at, item, item_bytes, contents)) return 0;
        if (seen & 1u << item) return fault(parser, "An item occurs twice in a frame.");
        seen |= 1u << item;
        at += item_bytes;
    }
    if (!(seen & 1u << 1) || !(seen & 1u << 2)) return fault(parser, "A frame lacks its token or its payload item.");
    if (contents->token_bytes > TOKEN_BYTES_MAX) return fault(parser, "The token length is over its limit.");
    if (contents->payload_bytes > PAYLOAD_BYTES_MAX) return fault(parser, "The payload length is over its limit.");
    return end;
}

static size_t walk(struct parser *parser, const uint8_t *bytes, size_t count, struct contents *contents) {
    switch (bytes[0]) {
    case 0: return walk_fields(parser, bytes, count, 1, contents);
    case 1:
        if (count < 9) return 0;
        contents->identifier = get32(bytes + 1);
        contents->has_identifier = 1;
        return walk_fields(parser, bytes, count, 9, contents);
    case 2: return walk_items(parser, bytes, count, contents);
    default: return fault(parser, "A frame has an unknown command.");
    }
}

size_t parser_feed(struct parser *parser, const uint8_t *bytes, size_t count) {
    size_t taken = 0;
    while (taken < count && !parser->probed) {
        struct contents contents = {0};
        size_t end = walk(parser, bytes + taken, count - taken, &contents);
        if (end == 0) break;
        if (contents.has_identifier) {
            if (contents.identifier != parser->identifier_expected) {
                fault(parser, "The identifiers do not run 1, 2, 3 and so on.");
                break;
            }
            parser->identifier_expected++;
        }
        taken += end;
        if (contents.token_bytes == 0) {
            parser->probed = 1;
            parser->probe_identifier = contents.identifier;
        } else if (contents.payload_bytes == 0) {
            fault(parser, "A frame with a token has an empty payload.");
            break;
        } else {
            parser->frames++;
            parser->bytes += end;
        }
    }
    return taken;
}
