// SPDX-License-Identifier: Apache-2.0

#include "sink_parser.h"

#include "frame.h"

// What a frame is found to hold, apart from its length.
struct contents {
    uint32_t token_octets;
    uint32_t payload_octets;
    uint32_t identifier;
    int has_identifier;
};

static size_t fault(struct parser *parser, const char *sentence) {
    parser->fault = sentence;
    return 0;
}

// The end of a command-0 or command-1 frame, which begins at its token length; 0 while it is not whole.
static size_t walk_fields(struct parser *parser, const uint8_t *octets, size_t count, size_t at,
                          struct contents *contents) {
    if (count < at + 2) return 0;
    contents->token_octets = get16(octets + at);
    if (contents->token_octets > TOKEN_OCTETS_MAX) return fault(parser, "The token length is over its limit.");
    at += 2 + contents->token_octets;
    if (count < at + 2) return 0;
    contents->payload_octets = get16(octets + at);
    if (contents->payload_octets > PAYLOAD_OCTETS_MAX) return fault(parser, "The payload length is over its limit.");
    at += 2 + contents->payload_octets;
    return count < at ? 0 : at;
}

static size_t read_item(struct parser *parser, const uint8_t *data, uint8_t item, uint16_t octets,
                        struct contents *contents) {
    switch (item) {
    case 1: contents->token_octets = octets; break;
    case 2: contents->payload_octets = octets; break;
    case 3:
        if (octets != 4) return fault(parser, "An identifier item is not four octets long.");
        contents->identifier = get32(data);
        contents->has_identifier = 1;
        break;
    case 4:
        if (octets != 4) return fault(parser, "An expiry item is not four octets long.");
        break;
    case 5:
        if (octets != 1) return fault(parser, "A priority item is not one octet long.");
        break;
    default: return fault(parser, "An item has an unknown number.");
    }
    return 1;
}

// The end of a command-2 frame; 0 while it is not whole.
static size_t walk_items(struct parser *parser, const uint8_t *octets, size_t count, struct contents *contents) {
    if (count < 5) return 0;
    uint32_t length = get32(octets + 1);
    if (length > ITEMS_OCTETS_MAX) return fault(parser, "The frame length is over its limit.");
    size_t end = 5 + (size_t)length;
    if (count < end) return 0;
    unsigned seen = 0;
    for (size_t at = 5; at < end;) {
        if (end - at < 3) return fault(parser, "An item is cut off by the end of its frame.");
        uint8_t item = octets[at];
        uint16_t item_octets = get16(octets + at + 1);
        at += 3;
        if (item_octets > end - at) return fault(parser, "An item is longer than its frame.");
        if (!read_item(parser, octets + at, item, item_octets, contents)) return 0;
        if (seen & 1u << item) return fault(parser, "An item occurs twice in a frame.");
        seen |= 1u << item;
        at += item_octets;
    }
    if (!(seen & 1u << 1) || !(seen & 1u << 2)) return fault(parser, "A frame lacks its token or its payload item.");
    if (contents->token_octets > TOKEN_OCTETS_MAX) return fault(parser, "The token length is over its limit.");
    if (contents->payload_octets > PAYLOAD_OCTETS_MAX) return fault(parser, "The payload length is over its limit.");
    return end;
}

static size_t walk(struct parser *parser, const uint8_t *octets, size_t count, struct contents *contents) {
    switch (octets[0]) {
    case 0: return walk_fields(parser, octets, count, 1, contents);
    case 1:
        if (count < 9) return 0;
        contents->identifier = get32(octets + 1);
        contents->has_identifier = 1;
        return walk_fields(parser, octets, count, 9, contents);
    case 2: return walk_items(parser, octets, count, contents);
    default: return fault(parser, "A frame has an unknown command.");
    }
}

size_t parser_feed(struct parser *parser, const uint8_t *octets, size_t count) {
    size_t taken = 0;
    while (taken < count && !parser->probed) {
        struct contents contents = {0};
        size_t end = walk(parser, octets + taken, count - taken, &contents);
        if (end == 0) break;
        if (contents.has_identifier) {
            if (contents.identifier != parser->identifier_expected) {
                fault(parser, "The identifiers do not run 1, 2, 3 and so on.");
                break;
            }
            parser->identifier_expected++;
        }
        taken += end;
        if (contents.token_octets == 0) {
            parser->probed = 1;
            parser->probe_identifier = contents.identifier;
        } else if (contents.payload_octets == 0) {
            fault(parser, "A frame with a token has an empty payload.");
            break;
        } else {
            parser->frames++;
            parser->octets += end;
        }
    }
    return taken;
}
