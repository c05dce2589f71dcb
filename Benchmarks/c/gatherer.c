// SPDX-License-Identifier: Apache-2.0

#include "gatherer.h"

#include <errno.h>
#include <openssl/bio.h>
#include <unistd.h>

enum {
    // An upper limit of the overhead of a TLS record for every cipher suite of TLS 1.2 and 1.3.
    RECORD_OVERHEAD_BYTES_MAX = 2048,
};

static uint8_t ciphertext[GATHERED_BYTES_MAX + GATHERED_RECORD_COUNT * RECORD_OVERHEAD_BYTES_MAX];
static size_t ciphertext_bytes;

static int gather(BIO *bio, const char *bytes, size_t count, size_t *written) {
    (void)bio;
    if (count > sizeof ciphertext - ciphertext_bytes) return 0;
    memcpy(ciphertext + ciphertext_bytes, bytes, count);
    ciphertext_bytes += count;
    *written = count;
    return 1;
}

static long control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

void gatherer_attach(const struct link *link) {
    static BIO_METHOD *method;
    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gatherer");
        if (!method || !BIO_meth_set_write_ex(method, gather) || !BIO_meth_set_ctrl(method, control)) fail("No BIO.");
    }
    BIO *bio = BIO_new(method);
    if (!bio) fail("No BIO.");
    BIO_set_init(bio, 1);
    SSL_set0_wbio(link->ssl, bio);
}

void gatherer_encrypt(const struct link *link, const uint8_t *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        size_t part = count - done < GATHERED_RECORD_BYTES ? count - done : GATHERED_RECORD_BYTES;
        if (SSL_write(link->ssl, bytes + done, (int)part) != (int)part) fail("The bytes could not be encrypted.");
        done += part;
    }
}

void gatherer_send(const struct link *link) {
    for (size_t sent = 0; sent < ciphertext_bytes;) {
        ssize_t count = write(link->socket, ciphertext + sent, ciphertext_bytes - sent);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail("The connection ended while writing.");
        sent += (size_t)count;
    }
    ciphertext_bytes = 0;
}
