// SPDX-License-Identifier: Apache-2.0
//
// Many records in one write(2): a BIO keeps what OpenSSL encrypts until it is sent.

#ifndef GATHERER_H
#define GATHERER_H

#include "run.h"

enum {
    GATHERED_RECORD_BYTES = 16384,
    GATHERED_RECORD_COUNT = 4,
    GATHERED_BYTES_MAX = GATHERED_RECORD_COUNT * GATHERED_RECORD_BYTES,
    GATHERED_FRAMES_MAX = GATHERED_BYTES_MAX / FRAME_BYTES,
};

// Makes a connection write to the gatherer after its handshake; it still reads from its socket.
void gatherer_attach(const struct link *link);

// Encrypts up to GATHERED_BYTES_MAX bytes, in records of 16 KiB.
void gatherer_encrypt(const struct link *link, const uint8_t *bytes, size_t count);

// Writes all gathered records to the socket of the link.
void gatherer_send(const struct link *link);

#endif
