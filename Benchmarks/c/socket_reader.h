// SPDX-License-Identifier: Apache-2.0
//
// A BIO that reads from a socket in big pieces. Of OpenSSL's own ways, a socket BIO makes two read(2) of each
// record, and read-ahead moves everything that is buffered once per record.

#ifndef SOCKET_READER_H
#define SOCKET_READER_H

#include <openssl/bio.h>

// Prepares what all readers share; answers 0 on failure. To be called once, before any other thread runs.
int socket_reader_prepare(void);

// A reader of `socket`, which stays the caller's to close; NULL on failure.
BIO *socket_reader_new(int socket);

#endif
