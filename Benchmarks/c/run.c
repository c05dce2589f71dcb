// SPDX-License-Identifier: Apache-2.0

#include "run.h"

#include <getopt.h>
#include <netdb.h>
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

static void read_options(struct run *run, int count, char **arguments) {
    static const struct option options[] = {
        {"host", required_argument, NULL, 'h'},        {"port", required_argument, NULL, 'p'},
        {"certificate", required_argument, NULL, 'c'}, {"key", required_argument, NULL, 'k'},
        {"trust", required_argument, NULL, 't'},       {"count", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    run->host = "127.0.0.1";
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        char *end = NULL;
        switch (option) {
        case 'h': run->host = optarg; break;
        case 'p': run->port = optarg; break;
        case 'c': run->certificate = optarg; break;
        case 'k': run->key = optarg; break;
        case 't': run->trust = optarg; break;
        case 'n': {
            unsigned long value = strtoul(optarg, &end, 10);
            // The probe takes the identifier behind the last frame's.
            if (*end != '\0' || value == 0 || value >= UINT32_MAX) fail("--count wants a number of frames.");
            run->count = (uint32_t)value;
            break;
        }
        default: exit(64);
        }
    }
    if (!run->port || !run->certificate || !run->key || !run->trust || run->count == 0) {
        fail("Wanted: --port N --certificate FILE --key FILE --trust FILE --count N [--host NAME]");
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

static SSL_CTX *make_context(const struct run *run) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)) fail("No TLS context.");
    if (SSL_CTX_use_certificate_chain_file(context, run->certificate) != 1) fail("The certificate is unreadable.");
    if (SSL_CTX_use_PrivateKey_file(context, run->key, SSL_FILETYPE_PEM) != 1) fail("The key is unreadable.");
    if (SSL_CTX_load_verify_locations(context, run->trust, NULL) != 1) fail("The trust file is unreadable.");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
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
    if (RAND_bytes(&run->tokens[0][0], sizeof run->tokens) != 1) fail("No random octets.");
    memset(run->payload, 'x', sizeof run->payload);
    memcpy(run->payload, "{\"aps\":{\"alert\":\"", 17);
    memcpy(run->payload + PAYLOAD_OCTETS - 3, "\"}}", 3);
    run->expiry = (uint32_t)time(NULL) + 3600;

    SSL_CTX *context = make_context(run);
    run->socket = connect_socket(run->host, run->port);
    run->ssl = SSL_new(context);
    SSL_CTX_free(context);
    if (!run->ssl || SSL_set_fd(run->ssl, run->socket) != 1) fail("No TLS connection.");
    expect_name(run->ssl, run->host);
    if (SSL_connect(run->ssl) != 1) fail("The handshake failed.");
}

void run_start(struct run *run) {
    run->wall_at_start = wall_seconds();
    run->cpu_at_start = cpu_seconds();
}

size_t run_encode(const struct run *run, uint32_t identifier, uint32_t frames, uint8_t *at) {
    for (uint32_t index = 0; index < frames; index++, identifier++) {
        put_frame(at + (size_t)index * FRAME_OCTETS, identifier, run->expiry,
                  run->tokens[identifier % TOKEN_COUNT], run->payload);
    }
    return (size_t)frames * FRAME_OCTETS;
}

void run_finish(struct run *run) {
    uint8_t answer[ANSWER_OCTETS];
    for (size_t have = 0; have < sizeof answer;) {
        int got = SSL_read(run->ssl, answer + have, (int)(sizeof answer - have));
        if (got <= 0) fail("The connection ended without an answer to the probe.");
        have += (size_t)got;
    }
    double wall = wall_seconds() - run->wall_at_start;
    double cpu = cpu_seconds() - run->cpu_at_start;
    if (answer[0] != 8 || answer[1] != 2 || get32(answer + 2) != run->count + 1) {
        fail("The answer is not the one to the probe.");
    }
    printf("{\"frames\": %u, \"wall_seconds\": %.6f, \"cpu_seconds\": %.6f}\n", run->count, wall, cpu);
    SSL_shutdown(run->ssl);
    SSL_free(run->ssl);
    close(run->socket);
}
