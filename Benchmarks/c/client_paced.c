// SPDX-License-Identifier: Apache-2.0
//
// A client with several connections that writes at times which do not depend on the gateway. Each connection has a
// turn in every millisecond, in which it sends a random number of frames (Poisson). The payload of a frame says when
// its turn was: a client that is late sends what it missed, and the time that it was late counts. Without --rate, the
// connections write as much as the gateway reads, and no frame has a time.
//
// It prints a line after the handshakes, and starts after a line on standard input.

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "latency.h"
#include "run.h"

enum {
    TURN_NANOSECONDS = 1000000,
    BURST_FRAMES_MAX = 16384 / FRAME_BYTES,
    SEED = 1,
};

struct sender {
    struct link link;
    uint32_t sent;
};

static struct run run;
static struct sender *senders;
static struct histogram lateness;

static void send_frames(struct sender *sender, uint32_t frames, uint64_t time) {
    static uint8_t burst[BURST_FRAMES_MAX * FRAME_BYTES];
    while (frames > 0) {
        uint32_t part = frames < BURST_FRAMES_MAX ? frames : BURST_FRAMES_MAX;
        size_t bytes = run_encode(&run, sender->sent + 1, part, burst);
        for (size_t at = FRAME_BYTES - PAYLOAD_BYTES; time != 0 && at < bytes; at += FRAME_BYTES) {
            put_stamp(burst + at, time);
            histogram_add(&lateness, now_nanoseconds() - time);
        }
        if (SSL_write(sender->link.ssl, burst, (int)bytes) != (int)bytes) fail("The connection ended while writing.");
        sender->sent += part;
        frames -= part;
    }
}

// A number from the Poisson distribution.
static uint32_t random_count(double mean) {
    uint32_t count = 0;
    // The exponential would be too small a number for a great mean, so it is divided.
    for (; mean > 0; mean -= 500) {
        double product = 1, least = exp(mean < 500 ? -mean : -500.0);
        while ((product *= drand48()) > least) count++;
    }
    return count;
}

static void sleep_until(uint64_t time) {
    struct timespec until = {.tv_sec = (time_t)(time / 1000000000), .tv_nsec = (long)(time % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
}

static uint32_t smaller(uint32_t one, uint32_t other) { return one < other ? one : other; }

static void send_paced(void) {
    double mean = (double)run.rate * TURN_NANOSECONDS / 1e9 / run.connections;
    uint64_t start = now_nanoseconds();
    srand48(SEED);
    prctl(PR_SET_TIMERSLACK, 1);
    for (uint64_t turn = 0, sent = 0; sent < run.count; turn++) {
        uint32_t frames = smaller(random_count(mean), run.count - (uint32_t)sent);
        if (frames == 0) continue;
        uint64_t time = start + turn * TURN_NANOSECONDS / run.connections;
        sleep_until(time);
        send_frames(&senders[turn % run.connections], frames, time);
        sent += frames;
    }
}

static void send_all(void) {
    for (uint32_t turn = 0, sent = 0; sent < run.count; turn++) {
        uint32_t frames = smaller(BURST_FRAMES_MAX, run.count - sent);
        send_frames(&senders[turn % run.connections], frames, 0);
        sent += frames;
    }
}

int main(int count, char **arguments) {
    run_open(&run, count, arguments);
    senders = calloc(run.connections, sizeof *senders);
    if (!senders) fail("No memory for the connections.");
    senders[0].link = run.link;
    for (uint32_t index = 1; index < run.connections; index++) senders[index].link = run_connect(&run);
    for (uint32_t index = 0; index < run.connections; index++) {
        // The kernel must not keep a small write until the one before is acknowledged, which takes up to 40 ms.
        if (setsockopt(senders[index].link.socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) != 0) {
            fail("The connection has no TCP_NODELAY.");
        }
    }
    puts("connected");
    fflush(stdout);
    if (getchar() == EOF) fail("The end of standard input came before a line.");
    run_start(&run);
    if (run.rate == 0) {
        send_all();
    } else {
        send_paced();
    }
    uint8_t probe[PROBE_BYTES];
    for (uint32_t index = 0; index < run.connections; index++) {
        put_probe(probe, senders[index].sent + 1);
        if (SSL_write(senders[index].link.ssl, probe, PROBE_BYTES) != PROBE_BYTES) fail("The probe was not sent.");
    }
    for (uint32_t index = 0; index < run.connections; index++) {
        run_read_answer(&senders[index].link, senders[index].sent + 1);
        run_close(&senders[index].link);
    }
    run_report(&run);
    histogram_print(&lateness);
    putchar('\n');
    return 0;
}
