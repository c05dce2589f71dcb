// SPDX-License-Identifier: Apache-2.0
//
// A gateway that parses every frame, answers probes, and counts: the receiver for measured senders.
// One thread per connection; the main thread accepts, and ends the program when the expected frames have arrived.

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"
#include "sink_parser.h"
#include "socket_reader.h"

enum {
    // Large enough for the longest frame followed by a record.
    BUFFER_BYTES = 65536,
    // The time limits for draining a closed connection, and for open ones at the end.
    DRAIN_SECONDS_MAX = 5,
};

struct options {
    const char *certificate;
    const char *key;
    const char *trust;
    uint64_t expect;
    unsigned tickets;
    unsigned deadline_seconds;
    int tls_max;
};

struct totals {
    pthread_mutex_t lock;
    uint64_t frames;
    uint64_t bytes;
    uint64_t connections;
    uint64_t open;
    double first;
    double last;
    int changed;
};

struct connection {
    SSL *ssl;
    int socket;
};

static struct options options = {.tickets = 2, .tls_max = TLS1_3_VERSION};
static struct totals totals = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Noreturn void fail(const char *sentence) {
    unsigned long code = ERR_get_error();
    fprintf(stderr, "sink: %s%s%s\n", sentence, code ? " " : "", code ? ERR_reason_error_string(code) : "");
    _exit(1);
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void wake_main(void) {
    if (eventfd_write(totals.changed, 1) != 0) fail("The main thread cannot be woken.");
}

// Adds the counts of a connection since the last call.
static void count_frames(uint64_t frames, uint64_t bytes, double first, double last) {
    pthread_mutex_lock(&totals.lock);
    if (totals.first == 0 || first < totals.first) totals.first = first;
    if (last > totals.last) totals.last = last;
    totals.frames += frames;
    totals.bytes += bytes;
    int over = options.expect != 0 && totals.frames > options.expect;
    int done = totals.frames == options.expect;
    pthread_mutex_unlock(&totals.lock);
    if (over) fail("More frames came than were expected.");
    if (done) wake_main();
}

static void answer_probe(const struct connection *connection, uint32_t identifier) {
    uint8_t answer[ANSWER_BYTES] = {8, 2};
    put32(answer + 2, identifier);
    if (SSL_write(connection->ssl, answer, sizeof answer) != sizeof answer) return;
    SSL_shutdown(connection->ssl);
    shutdown(connection->socket, SHUT_WR);
    // Unread bytes would make the kernel reset the connection, which could lose the response.
    struct timeval wait = {.tv_sec = DRAIN_SECONDS_MAX};
    setsockopt(connection->socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    double until = now_seconds() + DRAIN_SECONDS_MAX;
    for (uint8_t rest[16384]; now_seconds() < until && read(connection->socket, rest, sizeof rest) > 0;) {}
}

// Reads until the probe, the end of the connection, or an error, which ends the program.
static void read_frames(const struct connection *connection, uint8_t *buffer) {
    struct parser parser = {.identifier_expected = 1};
    size_t have = 0;
    while (!parser.probed) {
        int got = SSL_read(connection->ssl, buffer + have, (int)(BUFFER_BYTES - have));
        if (got <= 0) break;
        have += (size_t)got;
        double arrived = now_seconds();
        struct parser before = parser;
        size_t taken = parser_feed(&parser, buffer, have);
        if (parser.fault) fail(parser.fault);
        if (parser.frames != before.frames) {
            count_frames(parser.frames - before.frames, parser.bytes - before.bytes, arrived, now_seconds());
        }
        have -= taken;
        memmove(buffer, buffer + taken, have);
    }
    if (parser.probed) {
        answer_probe(connection, parser.probe_identifier);
    } else if (have != 0) {
        fail("A connection ended inside a frame.");
    } else {
        SSL_shutdown(connection->ssl);
    }
}

static void *serve(void *argument) {
    struct connection *connection = argument;
    uint8_t *buffer = malloc(BUFFER_BYTES);
    if (!buffer) fail("No memory for a connection.");
    if (SSL_accept(connection->ssl) == 1) {
        read_frames(connection, buffer);
    } else {
        unsigned long code = ERR_get_error();
        fprintf(stderr, "sink: a handshake failed: %s\n", code ? ERR_reason_error_string(code) : "connection closed");
    }
    free(buffer);
    SSL_free(connection->ssl);
    close(connection->socket);
    free(connection);
    pthread_mutex_lock(&totals.lock);
    totals.open--;
    pthread_mutex_unlock(&totals.lock);
    wake_main();
    return NULL;
}

static SSL_CTX *make_context(void) {
    static const unsigned char session_context[] = "sink";
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context) fail("No TLS context.");
    if (SSL_CTX_use_certificate_chain_file(context, options.certificate) != 1) fail("The certificate is unreadable.");
    if (SSL_CTX_use_PrivateKey_file(context, options.key, SSL_FILETYPE_PEM) != 1) fail("The key is unreadable.");
    if (SSL_CTX_load_verify_locations(context, options.trust, NULL) != 1) fail("The trust file is unreadable.");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(context, options.tls_max);
    // All compared clients use the same cipher suite.
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
    if (SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384") != 1 ||
        SSL_CTX_set_cipher_list(context, "ECDHE-RSA-AES128-GCM-SHA256:HIGH:!aNULL") != 1) {
        fail("The ciphers are unusable.");
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_id_context(context, session_context, sizeof session_context - 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER);
    if (SSL_CTX_set_num_tickets(context, options.tickets) != 1) fail("The number of tickets is unusable.");
    // Without tickets TLS 1.2 resumes from the session cache.
    if (options.tickets == 0) SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    return context;
}

static int listen_on_loopback(void) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(descriptor, (struct sockaddr *)&address, length) != 0 || listen(descriptor, 128) != 0 ||
        getsockname(descriptor, (struct sockaddr *)&address, &length) != 0) {
        fail("No socket to listen on.");
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return descriptor;
}

static void accept_connection(SSL_CTX *context, int listener) {
    int descriptor = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    struct connection *connection = malloc(sizeof *connection);
    if (!connection) fail("No memory for a connection.");
    *connection = (struct connection){.ssl = SSL_new(context), .socket = descriptor};
    BIO *reader = socket_reader_new(descriptor), *writer = BIO_new_socket(descriptor, BIO_NOCLOSE);
    if (!connection->ssl || !reader || !writer) fail("No TLS connection.");
    SSL_set_bio(connection->ssl, reader, writer);
    pthread_mutex_lock(&totals.lock);
    totals.connections++;
    totals.open++;
    pthread_mutex_unlock(&totals.lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, connection) != 0) fail("No thread for a connection.");
    pthread_detach(thread);
}

static void report_and_exit(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"frames\": %lu, \"bytes\": %lu, \"connections\": %lu, \"cpu_seconds\": %.6f, \"wall_seconds\": %.6f}\n",
           totals.frames, totals.bytes, totals.connections, cpu, totals.last - totals.first);
    fflush(stdout);
    _exit(0);
}

// Ends the program after all frames have arrived and their connections have closed, or after a time limit.
static void check_for_end(void) {
    static double complete_at;
    pthread_mutex_lock(&totals.lock);
    if (options.expect != 0 && totals.frames == options.expect) {
        if (complete_at == 0) complete_at = now_seconds();
        if (totals.open == 0 || now_seconds() - complete_at > DRAIN_SECONDS_MAX) report_and_exit();
    }
    pthread_mutex_unlock(&totals.lock);
}

static void overdue(int signal) {
    static const char sentence[] = "sink: the expected frames did not arrive in time\n";
    (void)signal;
    if (write(STDERR_FILENO, sentence, sizeof sentence - 1) < 0) _exit(2);
    _exit(1);
}

static uint64_t number(const char *text) {
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0') fail("An option wants a number.");
    return value;
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"certificate", required_argument, NULL, 'c'}, {"key", required_argument, NULL, 'k'},
        {"trust", required_argument, NULL, 't'},       {"expect", required_argument, NULL, 'e'},
        {"tickets", required_argument, NULL, 'i'},     {"deadline", required_argument, NULL, 'd'},
        {"tls-max", required_argument, NULL, 'm'},     {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;) {
        switch (option) {
        case 'c': options.certificate = optarg; break;
        case 'k': options.key = optarg; break;
        case 't': options.trust = optarg; break;
        case 'e': options.expect = number(optarg); break;
        case 'i': options.tickets = (unsigned)number(optarg); break;
        case 'd': options.deadline_seconds = (unsigned)number(optarg); break;
        case 'm':
            if (strcmp(optarg, "1.2") != 0 && strcmp(optarg, "1.3") != 0) fail("--tls-max wants 1.2 or 1.3.");
            options.tls_max = strcmp(optarg, "1.2") == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
            break;
        default: exit(64);
        }
    }
    if (!options.certificate || !options.key || !options.trust) {
        fail("Wanted: --certificate FILE --key FILE --trust FILE [--expect N] [--tickets N] [--tls-max 1.2|1.3] "
             "[--deadline SECONDS]");
    }
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, overdue);
    alarm(options.deadline_seconds);
    totals.changed = eventfd(0, EFD_CLOEXEC);
    if (totals.changed < 0) fail("No event descriptor.");
    if (!socket_reader_prepare()) fail("No BIO.");
    SSL_CTX *context = make_context();
    struct pollfd watched[] = {
        {.fd = listen_on_loopback(), .events = POLLIN},
        {.fd = totals.changed, .events = POLLIN},
    };
    for (;;) {
        if (poll(watched, 2, 1000) < 0) continue;
        if (watched[0].revents & POLLIN) accept_connection(context, watched[0].fd);
        eventfd_t changes;
        if (watched[1].revents & POLLIN && eventfd_read(totals.changed, &changes) != 0) fail("No event was there.");
        check_for_end();
    }
}
