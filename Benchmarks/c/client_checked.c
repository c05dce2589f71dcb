// SPDX-License-Identifier: Apache-2.0
//
// The work of the library in C: the batched client, but every frame is kept until it is verified. When a window of
// frames is full, the client opens a replacement connection with session resumption, sends a probe, reads its response,
// and sends the next window on the replacement.

#include <stdlib.h>

#include "gatherer.h"

// The library's distance.
enum { PREFETCH_BYTES = 1024 };

// Sends one window, whose identifiers start with 1, followed by the probe.
static void send_window(const struct run *run, uint32_t count, uint8_t *kept) {
    for (uint32_t sent = 0; sent < count;) {
        uint32_t frames = count - sent < GATHERED_FRAMES_MAX ? count - sent : GATHERED_FRAMES_MAX;
        uint8_t *at = kept + (size_t)sent * FRAME_BYTES;
        gatherer_encrypt(&run->link, at, run_encode(run, sent + 1, frames, at));
        gatherer_send(&run->link);
        sent += frames;
    }
    uint8_t probe[PROBE_BYTES];
    put_probe(probe, count + 1);
    gatherer_encrypt(&run->link, probe, sizeof probe);
}

int main(int count, char **arguments) {
    static struct run run;
    run_open(&run, count, arguments);
    uint8_t *kept = malloc((size_t)run.window * FRAME_BYTES);
    if (!kept) fail("No memory for the window.");
    run.prefetch_bytes = PREFETCH_BYTES;
    gatherer_attach(&run.link);
    run_start(&run);
    for (uint32_t proved = 0; proved < run.count;) {
        uint32_t frames = run.count - proved < run.window ? run.count - proved : run.window;
        send_window(&run, frames, kept);
        proved += frames;
        struct link next = {.socket = -1};
        if (proved < run.count) next = run_connect(&run);
        gatherer_send(&run.link);
        run_read_answer(&run.link, frames + 1);
        if (proved == run.count) {
            run_report(&run);
            break;
        }
        // close_notify is gathered as well.
        SSL_shutdown(run.link.ssl);
        gatherer_send(&run.link);
        run_close(&run.link);
        run.link = next;
        gatherer_attach(&run.link);
    }
    free(kept);
    run_close(&run.link);
    return 0;
}
