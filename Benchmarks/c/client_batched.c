// SPDX-License-Identifier: Apache-2.0
//
// The batched ceiling: a BIO gathers the records of 64 KiB of frames, and one write(2) sends them.

#include <errno.h>
#include <openssl/bio.h>
#include <unistd.h>

#include "run.h"

enum {
    RECORD_OCTETS = 16384,
    RECORD_COUNT = 4,
    BATCH_OCTETS = RECORD_COUNT * RECORD_OCTETS,
    BATCH_FRAMES = BATCH_OCTETS / FRAME_OCTETS,
    // What TLS adds to a record is below this for every cipher of TLS 1.2 and 1.3.
    RECORD_OVERHEAD_OCTETS_MAX = 2048,
};

static uint8_t ciphertext[BATCH_OCTETS + RECORD_COUNT * RECORD_OVERHEAD_OCTETS_MAX];
static size_t ciphertext_octets;

static int gather(BIO *bio, const char *octets, size_t count, size_t *written) {
    (void)bio;
    if (count > sizeof ciphertext - ciphertext_octets) return 0;
    memcpy(ciphertext + ciphertext_octets, octets, count);
    ciphertext_octets += count;
    *written = count;
    return 1;
}

static long control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO *make_gatherer(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gatherer");
    if (!method || !BIO_meth_set_write_ex(method, gather) || !BIO_meth_set_ctrl(method, control)) fail("No BIO.");
    BIO *bio = BIO_new(method);
    if (!bio) fail("No BIO.");
    BIO_set_init(bio, 1);
    return bio;
}

static void send_gathered(const struct run *run) {
    for (size_t sent = 0; sent < ciphertext_octets;) {
        ssize_t count = write(run->socket, ciphertext + sent, ciphertext_octets - sent);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail("The connection ended while writing.");
        sent += (size_t)count;
    }
    ciphertext_octets = 0;
}

static void encrypt(const struct run *run, const uint8_t *octets, size_t count) {
    for (size_t done = 0; done < count;) {
        size_t part = count - done < RECORD_OCTETS ? count - done : RECORD_OCTETS;
        if (SSL_write(run->ssl, octets + done, (int)part) != (int)part) fail("The octets could not be encrypted.");
        done += part;
    }
}

int main(int count, char **arguments) {
    static struct run run;
    static uint8_t batch[BATCH_OCTETS];
    run_open(&run, count, arguments);
    // The handshake went through the socket; from here on only reads do.
    SSL_set0_wbio(run.ssl, make_gatherer());
    run_start(&run);
    for (uint32_t sent = 0; sent < run.count;) {
        uint32_t frames = run.count - sent < BATCH_FRAMES ? run.count - sent : BATCH_FRAMES;
        encrypt(&run, batch, run_encode(&run, sent + 1, frames, batch));
        send_gathered(&run);
        sent += frames;
    }
    put_probe(batch, run.count + 1);
    encrypt(&run, batch, PROBE_OCTETS);
    send_gathered(&run);
    run_finish(&run);
    return 0;
}
