// SPDX-License-Identifier: Apache-2.0
//
// A measured run of a client: its options, connection, frames and report.

#ifndef RUN_H
#define RUN_H

#include <openssl/ssl.h>
#include <stdint.h>

#include "frame.h"

enum { TOKEN_COUNT = 1024 };

// One connection.
struct link {
    int socket;
    SSL *ssl;
};

struct run {
    const char *host;
    const char *port;
    const char *certificate;
    const char *key;
    const char *trust;
    // The one token of all frames, in hexadecimal digits; NULL for random ones.
    const char *token;
    // Whether the last two bytes of that token differ, so that there are TOKEN_COUNT of them.
    int spreads;
    // The ciphers of TLS 1.2; NULL for OpenSSL's.
    const char *ciphers;
    // Whether each payload contains a unique number.
    int varies;
    uint32_t count;
    // The maximum number of unverified frames, for the client that verifies them.
    uint32_t window;
    // For the client with several connections: how many, and the frames a second on all of them; 0 for all that the
    // gateway reads.
    uint32_t connections;
    uint32_t rate;
    // How far ahead memory for frames is prefetched; 0 for none.
    size_t prefetch_bytes;
    SSL_CTX *context;
    struct link link;
    uint32_t expiry;
    // Tokens are read from a table, like those of a sender with a list of devices.
    uint8_t tokens[TOKEN_COUNT][TOKEN_BYTES];
    uint8_t payload[PAYLOAD_BYTES];
    double wall_at_start;
    double cpu_at_start;
};

// Ends the program with a message on standard error.
_Noreturn void fail(const char *sentence);

// Parses the options and opens `link`, including the handshake and the check of the gateway's name.
void run_open(struct run *run, int count, char **arguments);

// Starts the clocks.
void run_start(struct run *run);

// Encodes up to `frames` frames, the first with `identifier`, to `at`; returns the number of bytes.
size_t run_encode(const struct run *run, uint32_t identifier, uint32_t frames, uint8_t *at);

// Opens another connection; it resumes the newest session, if the gateway has offered one.
struct link run_connect(const struct run *run);

// Reads the response to the probe with this identifier.
void run_read_answer(const struct link *link, uint32_t identifier);

// Stops the clocks and prints the report.
void run_report(const struct run *run);

void run_close(struct link *link);

#endif
