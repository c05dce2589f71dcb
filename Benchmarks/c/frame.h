// SPDX-License-Identifier: Apache-2.0
//
// The command-1 frame as the measured clients encode it, and the limits that the sink checks.

#ifndef FRAME_H
#define FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TOKEN_BYTES = 32,
    PAYLOAD_BYTES = 100,
    FRAME_BYTES = 13 + TOKEN_BYTES + PAYLOAD_BYTES,
    PROBE_BYTES = 13,
    ANSWER_BYTES = 6,
    // The limits of the binary protocol after the server change of 2014.
    TOKEN_BYTES_MAX = 100,
    PAYLOAD_BYTES_MAX = 2048,
    ITEMS_BYTES_MAX = 8192,
};

static inline void put16(uint8_t *at, uint16_t value) {
    value = __builtin_bswap16(value);
    memcpy(at, &value, sizeof value);
}

static inline void put32(uint8_t *at, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(at, &value, sizeof value);
}

static inline uint16_t get16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap16(value);
}

static inline uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

// Writes one frame of FRAME_BYTES to `at`.
static inline void put_frame(uint8_t *at, uint32_t identifier, uint32_t expiry, const uint8_t *token,
                             const uint8_t *payload) {
    at[0] = 1;
    put32(at + 1, identifier);
    put32(at + 5, expiry);
    put16(at + 9, TOKEN_BYTES);
    memcpy(at + 11, token, TOKEN_BYTES);
    put16(at + 11 + TOKEN_BYTES, PAYLOAD_BYTES);
    memcpy(at + 13 + TOKEN_BYTES, payload, PAYLOAD_BYTES);
}

// Writes one probe of PROBE_BYTES to `at`: a frame without token and payload.
static inline void put_probe(uint8_t *at, uint32_t identifier) {
    memset(at, 0, PROBE_BYTES);
    at[0] = 1;
    put32(at + 1, identifier);
}

#endif
