// SPDX-License-Identifier: Apache-2.0

#include "socket_reader.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 262144 };

struct reader {
    int socket;
    size_t at;
    size_t end;
    uint8_t bytes[READ_BYTES];
};

static BIO_METHOD *method;

static int reader_read(BIO *bio, char *to, size_t wanted, size_t *got) {
    struct reader *reader = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (reader->at == reader->end) {
        ssize_t count = read(reader->socket, reader->bytes, sizeof reader->bytes);
        if (count <= 0) {
            if (count < 0 && errno == EINTR) BIO_set_retry_read(bio);
            if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
            return 0;
        }
        reader->at = 0;
        reader->end = (size_t)count;
    }
    size_t have = reader->end - reader->at;
    *got = wanted < have ? wanted : have;
    memcpy(to, reader->bytes + reader->at, *got);
    reader->at += *got;
    return 1;
}

static long reader_control(BIO *bio, int command, long number, void *pointer) {
    (void)number, (void)pointer;
    return command == BIO_CTRL_EOF ? BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 : 0;
}

static int reader_destroy(BIO *bio) {
    free(BIO_get_data(bio));
    return 1;
}

int socket_reader_prepare(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket reader");
    return method && BIO_meth_set_read_ex(method, reader_read) && BIO_meth_set_ctrl(method, reader_control) &&
           BIO_meth_set_destroy(method, reader_destroy);
}

BIO *socket_reader_new(int socket) {
    struct reader *reader = malloc(sizeof *reader);
    BIO *bio = reader ? BIO_new(method) : NULL;
    if (!bio) {
        free(reader);
        return NULL;
    }
    reader->socket = socket;
    reader->at = reader->end = 0;
    BIO_set_data(bio, reader);
    BIO_set_init(bio, 1);
    return bio;
}
