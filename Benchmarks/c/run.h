// SPDX-License-Identifier: Apache-2.0
//
// One measured run of a client: its options, its connection, what it sends, its report.

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
    // The ciphers of TLS 1.2; NULL for OpenSSL's.
    const char *ciphers;
    // Whether each payload has a number of its own.
    int varies;
    uint32_t count;
    // How many frames may be unproved, for the client that proves them.
    uint32_t window;
    // How far ahead the memory for frames is asked for, where it is cold; 0 for not at all.
    size_t prefetch_bytes;
    SSL_CTX *context;
    struct link link;
    uint32_t expiry;
    // Tokens are read from a table, as a sender with a list of devices does.
    uint8_t tokens[TOKEN_COUNT][TOKEN_BYTES];
    uint8_t payload[PAYLOAD_BYTES];
    double wall_at_start;
    double cpu_at_start;
};

// Ends the program with a sentence on standard error.
_Noreturn void fail(const char *sentence);

// Reads the options and opens `link`; on return the handshake is done and the gateway's name checked.
void run_open(struct run *run, int count, char **arguments);

// Starts the clocks.
void run_start(struct run *run);

// Encodes up to `frames` frames, the first with `identifier`, to `at`; answers the bytes written.
size_t run_encode(const struct run *run, uint32_t identifier, uint32_t frames, uint8_t *at);

// Opens another connection; it resumes the newest session, if the gateway has offered one.
struct link run_connect(const struct run *run);

// Reads the answer to the probe with this identifier.
void run_read_answer(const struct link *link, uint32_t identifier);

// Stops the clocks and prints the report.
void run_report(const struct run *run);

void run_close(struct link *link);

#endif
