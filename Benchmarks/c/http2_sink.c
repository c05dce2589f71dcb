// SPDX-License-Identifier: Apache-2.0
//
// An HTTP/2 server that answers each request with 200, and measures the time from the one in its body to its arrival.
// On SIGUSR1, it prints the number of requests since the last time, and the histogram of their times. One thread.

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "latency.h"

enum {
    READ_BYTES = 65536,
    // A record of TLS.
    WRITE_BYTES = 16384,
    EVENT_COUNT = 64,
};

// The first bytes of a request's body.
struct body {
    uint8_t bytes[STAMP_OFFSET + STAMP_BYTES];
    size_t count;
};

struct connection {
    int socket;
    SSL *ssl;
    nghttp2_session *session;
    // Bytes that are still to be written.
    uint8_t out[WRITE_BYTES];
    size_t out_count;
    // The rest of what the session gave last.
    const uint8_t *rest;
    size_t rest_count;
};

static struct histogram times;
static uint64_t request_count;

static _Noreturn void fail(const char *sentence) {
    unsigned long code = ERR_get_error();
    fprintf(stderr, "http2_sink: %s%s%s\n", sentence, code ? " " : "", code ? ERR_reason_error_string(code) : "");
    exit(1);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    (void)context;
    struct body *body = calloc(1, sizeof *body);
    if (!body) fail("No memory for a request.");
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, body);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t count,
                   void *context) {
    (void)flags, (void)context;
    struct body *body = nghttp2_session_get_stream_user_data(session, stream);
    if (!body) return 0;
    size_t room = sizeof body->bytes - body->count, part = count < room ? count : room;
    memcpy(body->bytes + body->count, bytes, part);
    body->count += part;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    static uint8_t name[] = ":status", value[] = "200";
    static const nghttp2_nv status = {name, value, sizeof name - 1, sizeof value - 1, NGHTTP2_NV_FLAG_NONE};
    (void)context;
    struct body *body = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!body || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    uint64_t time = get_stamp(body->bytes, body->count);
    request_count++;
    if (time != 0) histogram_add(&times, now_nanoseconds() - time);
    return nghttp2_submit_response(session, frame->hd.stream_id, &status, 1, NULL);
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *context) {
    (void)code, (void)context;
    free(nghttp2_session_get_stream_user_data(session, stream));
    return 0;
}

static nghttp2_session *make_session(struct connection *connection, uint32_t streams) {
    static nghttp2_session_callbacks *callbacks;
    if (!callbacks) {
        if (nghttp2_session_callbacks_new(&callbacks) != 0) fail("No session.");
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    }
    nghttp2_session *session;
    const nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams};
    if (nghttp2_session_server_new(&session, callbacks, connection) != 0 ||
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &settings, 1) != 0) {
        fail("No session.");
    }
    return session;
}

// Collects up to a record of what the session has to send; returns whether there is anything.
static int gather(struct connection *connection) {
    while (connection->out_count < WRITE_BYTES) {
        if (connection->rest_count == 0) {
            ssize_t count = nghttp2_session_mem_send(connection->session, &connection->rest);
            if (count < 0) fail("The session has an error.");
            if (count == 0) break;
            connection->rest_count = (size_t)count;
        }
        size_t room = WRITE_BYTES - connection->out_count;
        size_t part = connection->rest_count < room ? connection->rest_count : room;
        memcpy(connection->out + connection->out_count, connection->rest, part);
        connection->out_count += part;
        connection->rest += part;
        connection->rest_count -= part;
    }
    return connection->out_count > 0;
}

static int has_to_wait(const struct connection *connection, int count) {
    int error = SSL_get_error(connection->ssl, count);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

// Returns 0 if the connection has ended.
static int write_all(struct connection *connection) {
    // A write that has to wait is repeated with the same bytes.
    for (int waits = 0; !waits && (connection->out_count > 0 || gather(connection));) {
        int count = SSL_write(connection->ssl, connection->out, (int)connection->out_count);
        if (count > 0) {
            connection->out_count = 0;
        } else if (has_to_wait(connection, count)) {
            waits = 1;
        } else {
            return 0;
        }
    }
    return 1;
}

// Reads and answers what has arrived; returns 0 if the connection has ended.
static int serve(struct connection *connection) {
    static uint8_t bytes[READ_BYTES];
    for (int count; (count = SSL_read(connection->ssl, bytes, sizeof bytes)) != 0;) {
        if (count < 0) return has_to_wait(connection, count) && write_all(connection);
        if (nghttp2_session_mem_recv(connection->session, bytes, (size_t)count) != count) return 0;
    }
    return 0;
}

static void end(struct connection *connection) {
    nghttp2_session_del(connection->session);
    SSL_free(connection->ssl);
    close(connection->socket);
    free(connection);
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *count, const unsigned char *offered,
                           unsigned int offered_count, void *context) {
    static const unsigned char protocol[] = "\x02h2";
    (void)ssl, (void)context;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, count, protocol, 3, offered, offered_count) ==
                   OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *make_context(const char *certificate, const char *key) {
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context) fail("No TLS context.");
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) fail("The certificate is unreadable.");
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) fail("The key is unreadable.");
    SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    return context;
}

static int listen_on_loopback(void) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&address, length) != 0 ||
        listen(descriptor, 128) != 0 || getsockname(descriptor, (struct sockaddr *)&address, &length) != 0) {
        fail("No socket to listen on.");
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return descriptor;
}

static void watch(int poller, int descriptor, struct connection *connection) {
    // Edges: a connection is read and written until it has to wait.
    struct epoll_event event = {.events = connection ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLIN, .data.ptr = connection};
    if (!connection) event.data.u64 = (uint64_t)descriptor << 1 | 1;
    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0) fail("A descriptor cannot be watched.");
}

static void accept_connection(int poller, int listener, SSL_CTX *context, uint32_t streams) {
    int descriptor = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) return;
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection) fail("No memory for a connection.");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    connection->socket = descriptor;
    connection->ssl = SSL_new(context);
    if (!connection->ssl || SSL_set_fd(connection->ssl, descriptor) != 1) fail("No TLS connection.");
    SSL_set_accept_state(connection->ssl);
    connection->session = make_session(connection, streams);
    watch(poller, descriptor, connection);
}

static void report(int signals) {
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != sizeof info) fail("No signal was there.");
    printf("{\"requests\": %lu, \"times\": ", request_count);
    histogram_print(&times);
    puts("}");
    fflush(stdout);
    request_count = 0;
    memset(&times, 0, sizeof times);
}

int main(int count, char **arguments) {
    static const struct option known[] = {
        {"certificate", required_argument, NULL, 'c'},
        {"key", required_argument, NULL, 'k'},
        {"streams", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    const char *certificate = NULL, *key = NULL;
    uint32_t streams = 1000;
    for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;) {
        switch (option) {
        case 'c': certificate = optarg; break;
        case 'k': key = optarg; break;
        case 's': streams = (uint32_t)strtoul(optarg, NULL, 10); break;
        default: return 64;
        }
    }
    if (!certificate || !key || streams == 0) fail("Wanted: --certificate FILE --key FILE [--streams N]");
    signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int poller = epoll_create1(EPOLL_CLOEXEC), signals = signalfd(-1, &mask, SFD_CLOEXEC);
    if (poller < 0 || signals < 0) fail("No events.");
    SSL_CTX *context = make_context(certificate, key);
    int listener = listen_on_loopback();
    watch(poller, listener, NULL);
    watch(poller, signals, NULL);
    for (;;) {
        struct epoll_event events[EVENT_COUNT];
        int ready = epoll_wait(poller, events, EVENT_COUNT, -1);
        if (ready < 0 && errno != EINTR) fail("No events can be awaited.");
        for (int index = 0; index < ready; index++) {
            uint64_t data = events[index].data.u64;
            if (data == ((uint64_t)listener << 1 | 1)) {
                accept_connection(poller, listener, context, streams);
            } else if (data == ((uint64_t)signals << 1 | 1)) {
                report(signals);
            } else if (!serve(events[index].data.ptr)) {
                end(events[index].data.ptr);
            }
        }
    }
}
