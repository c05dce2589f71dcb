// SPDX-License-Identifier: Apache-2.0

#include "run.h"

#include <getopt.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// The library's default.
enum { WINDOW_FRAMES = 100000 };

// The start of the payload text.
enum { NUMBER_OFFSET = 17 };

static SSL_SESSION *newest_session;

_Noreturn void fail(const char *sentence) {
    unsigned long code = ERR_get_error();
    fprintf(stderr, "%s", sentence);
    if (code != 0) fprintf(stderr, " (%s)", ERR_reason_error_string(code));
    fputc('\n', stderr);
    exit(1);
}

static double wall_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static uint32_t frame_count(const char *text) {
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    // The probe has the identifier after that of the last frame.
    if (*end != '\0' || value == 0 || value >= UINT32_MAX) {
        fail("--count, --window, --connections and --rate want a number.");
    }
    return (uint32_t)value;
}

static void read_options(struct run *run, int count, char **arguments) {
    static const struct option options[] = {
        {"host", required_argument, NULL, 'h'},        {"port", required_argument, NULL, 'p'},
        {"certificate", required_argument, NULL, 'c'}, {"key", required_argument, NULL, 'k'},
        {"trust", required_argument, NULL, 't'},       {"count", required_argument, NULL, 'n'},
        {"window", required_argument, NULL, 'w'},      {"token", required_argument, NULL, 'd'},
        {"ciphers", required_argument, NULL, 'i'},     {"vary", no_argument, NULL, 'v'},
        {"spread", no_argument, NULL, 's'},            {"connections", required_argument, NULL, 'm'},
        {"rate", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    run->host = "127.0.0.1";
    run->window = WINDOW_FRAMES;
    run->connections = 1;
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case 'h': run->host = optarg; break;
        case 'p': run->port = optarg; break;
        case 'c': run->certificate = optarg; break;
        case 'k': run->key = optarg; break;
        case 't': run->trust = optarg; break;
        case 'n': run->count = frame_count(optarg); break;
        case 'w': run->window = frame_count(optarg); break;
        case 'd': run->token = optarg; break;
        case 'i': run->ciphers = optarg; break;
        case 'v': run->varies = 1; break;
        case 's': run->spreads = 1; break;
        case 'm': run->connections = frame_count(optarg); break;
        case 'r': run->rate = frame_count(optarg); break;
        default: exit(64);
        }
    }
    if (!run->port || !run->certificate || !run->key || !run->trust || run->count == 0) {
        fail("Wanted: --port N --certificate FILE --key FILE --trust FILE --count N [--host NAME] [--window N] "
             "[--token HEX] [--spread] [--ciphers LIST] [--vary] [--connections N] [--rate N]");
    }
}

// Fills the table with random tokens, or with the given one.
static void fill_tokens(struct run *run) {
    if (run->token == NULL) {
        if (RAND_bytes(&run->tokens[0][0], sizeof run->tokens) != 1) fail("No random bytes.");
        return;
    }
    size_t count = 0;
    if (OPENSSL_hexstr2buf_ex(run->tokens[0], TOKEN_BYTES, &count, run->token, '\0') != 1 || count != TOKEN_BYTES) {
        fail("--token wants 64 hexadecimal digits.");
    }
    for (size_t index = 1; index < TOKEN_COUNT; index++) memcpy(run->tokens[index], run->tokens[0], TOKEN_BYTES);
    for (size_t index = 0; run->spreads && index < TOKEN_COUNT; index++) {
        run->tokens[index][TOKEN_BYTES - 2] = (uint8_t)(index >> 8);
        run->tokens[index][TOKEN_BYTES - 1] = (uint8_t)index;
    }
}

static int connect_socket(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0) fail("The host has no address.");
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
        int descriptor = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
        if (descriptor < 0) continue;
        if (connect(descriptor, each->ai_addr, each->ai_addrlen) == 0) {
            freeaddrinfo(found);
            return descriptor;
        }
        close(descriptor);
    }
    fail("No address of the host accepts a connection.");
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
    (void)ssl;
    SSL_SESSION_free(newest_session);
    newest_session = session;
    return 1;
}

static SSL_CTX *make_context(const struct run *run) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)) fail("No TLS context.");
    if (SSL_CTX_use_certificate_chain_file(context, run->certificate) != 1) fail("The certificate is unreadable.");
    if (SSL_CTX_use_PrivateKey_file(context, run->key, SSL_FILETYPE_PEM) != 1) fail("The key is unreadable.");
    if (SSL_CTX_load_verify_locations(context, run->trust, NULL) != 1) fail("The trust file is unreadable.");
    // For TLS 1.2; the server chooses.
    if (run->ciphers && SSL_CTX_set_cipher_list(context, run->ciphers) != 1) fail("The ciphers are unusable.");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    return context;
}

static void expect_name(SSL *ssl, const char *host) {
    X509_VERIFY_PARAM *parameters = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1) return;
    ERR_clear_error();
    if (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1) fail("The host name is unusable.");
}

void run_open(struct run *run, int count, char **arguments) {
    memset(run, 0, sizeof *run);
    read_options(run, count, arguments);
    signal(SIGPIPE, SIG_IGN);
    fill_tokens(run);
    memset(run->payload, 'x', sizeof run->payload);
    memcpy(run->payload, "{\"aps\":{\"alert\":\"", 17);
    memcpy(run->payload + PAYLOAD_BYTES - 3, "\"}}", 3);
    run->expiry = (uint32_t)time(NULL) + 3600;

    run->context = make_context(run);
    run->link = run_connect(run);
}

struct link run_connect(const struct run *run) {
    struct link link = {.socket = connect_socket(run->host, run->port), .ssl = SSL_new(run->context)};
    if (!link.ssl || SSL_set_fd(link.ssl, link.socket) != 1) fail("No TLS connection.");
    expect_name(link.ssl, run->host);
    if (newest_session && SSL_set_session(link.ssl, newest_session) != 1) fail("The session is unusable.");
    if (SSL_connect(link.ssl) != 1) fail("The handshake failed.");
    return link;
}

void run_start(struct run *run) {
    run->wall_at_start = wall_seconds();
    run->cpu_at_start = cpu_seconds();
}

// Writes eight digits.
static void put_number(uint8_t *at, uint32_t number) {
    for (int digit = 7; digit >= 0; digit--, number /= 10) at[digit] = (uint8_t)('0' + number % 10);
}

size_t run_encode(const struct run *run, uint32_t identifier, uint32_t frames, uint8_t *at) {
    for (uint32_t index = 0; index < frames; index++, identifier++) {
        if (run->prefetch_bytes != 0) {
            const uint8_t *ahead = at + (size_t)index * FRAME_BYTES + run->prefetch_bytes;
            __builtin_prefetch(ahead, 1);
            __builtin_prefetch(ahead + 64, 1);
            __builtin_prefetch(ahead + 128, 1);
        }
        uint8_t *frame = at + (size_t)index * FRAME_BYTES;
        put_frame(frame, identifier, run->expiry, run->tokens[identifier % TOKEN_COUNT], run->payload);
        if (run->varies) put_number(frame + FRAME_BYTES - PAYLOAD_BYTES + NUMBER_OFFSET, identifier);
    }
    return (size_t)frames * FRAME_BYTES;
}

void run_read_answer(const struct link *link, uint32_t identifier) {
    uint8_t answer[ANSWER_BYTES];
    for (size_t have = 0; have < sizeof answer;) {
        int got = SSL_read(link->ssl, answer + have, (int)(sizeof answer - have));
        if (got <= 0) fail("The connection ended without an answer to the probe.");
        have += (size_t)got;
    }
    if (answer[0] != 8 || answer[1] != 2 || get32(answer + 2) != identifier) {
        fail("The answer is not the one to the probe.");
    }
}

void run_report(const struct run *run) {
    double wall = wall_seconds() - run->wall_at_start;
    double cpu = cpu_seconds() - run->cpu_at_start;
    printf("{\"frames\": %u, \"wall_seconds\": %.6f, \"cpu_seconds\": %.6f}\n", run->count, wall, cpu);
}

void run_close(struct link *link) {
    SSL_shutdown(link->ssl);
    SSL_free(link->ssl);
    close(link->socket);
}
