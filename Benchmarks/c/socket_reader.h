// SPDX-License-Identifier: Apache-2.0
//
// A BIO that reads from a socket in large blocks. OpenSSL's socket BIO makes two read(2) calls per record, and its
// read-ahead moves all buffered bytes once per record.

#ifndef SOCKET_READER_H
#define SOCKET_READER_H

#include <openssl/bio.h>

// Initializes shared state; returns 0 on failure. Call it once, before any other thread runs.
int socket_reader_prepare(void);

// Creates a reader of `socket`, which the caller closes; NULL on failure.
BIO *socket_reader_new(int socket);

#endif
