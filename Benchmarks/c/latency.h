// SPDX-License-Identifier: Apache-2.0
//
// A histogram of times with a fixed relative error, and the time of a notification in its payload.

#ifndef LATENCY_H
#define LATENCY_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    // Each power of two is divided into 128 buckets, so that a time is at most 0.8 % below the end of its bucket.
    BUCKET_BITS = 7,
    BUCKETS_PER_POWER = 1 << BUCKET_BITS,
    BUCKET_COUNT = (64 - BUCKET_BITS + 1) * BUCKETS_PER_POWER,
    // The start of the payload's text, and what is there: a letter and 16 hexadecimal digits.
    STAMP_OFFSET = 17,
    STAMP_BYTES = 17,
};

struct histogram {
    uint64_t counts[BUCKET_COUNT];
};

static inline uint64_t now_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void histogram_add(struct histogram *histogram, uint64_t value) {
    int shift = value < BUCKETS_PER_POWER ? 0 : 63 - __builtin_clzll(value) - BUCKET_BITS;
    // The highest bit of the shifted value is that of the power, so that the buckets of powers follow each other.
    histogram->counts[(size_t)shift * BUCKETS_PER_POWER + (value >> shift)]++;
}

// Prints the buckets that are not empty as an object of JSON: the greatest time of each, and its count.
static inline void histogram_print(const struct histogram *histogram) {
    const char *separator = "{";
    for (size_t index = 0; index < BUCKET_COUNT; index++) {
        if (histogram->counts[index] == 0) continue;
        size_t shift = index < 2 * BUCKETS_PER_POWER ? 0 : index / BUCKETS_PER_POWER - 1;
        uint64_t last = (((uint64_t)(index - shift * BUCKETS_PER_POWER) + 1) << shift) - 1;
        printf("%s\"%lu\": %lu", separator, last, histogram->counts[index]);
        separator = ", ";
    }
    printf("%s}", *separator == '{' ? "{" : "");
}

static inline void put_stamp(uint8_t *payload, uint64_t time) {
    char digits[STAMP_BYTES + 1];
    snprintf(digits, sizeof digits, "T%016lx", time);
    memcpy(payload + STAMP_OFFSET, digits, STAMP_BYTES);
}

// Reads the time in the first `count` bytes of a payload; 0 if there is none.
static inline uint64_t get_stamp(const uint8_t *payload, size_t count) {
    if (count < STAMP_OFFSET + STAMP_BYTES || payload[STAMP_OFFSET] != 'T') return 0;
    uint64_t time = 0;
    for (const uint8_t *at = payload + STAMP_OFFSET + 1; at < payload + STAMP_OFFSET + STAMP_BYTES; at++) {
        if (*at >= '0' && *at <= '9') {
            time = time << 4 | (uint64_t)(*at - '0');
        } else if (*at >= 'a' && *at <= 'f') {
            time = time << 4 | (uint64_t)(*at - 'a' + 10);
        } else {
            return 0;
        }
    }
    return time;
}

#endif
