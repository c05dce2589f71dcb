// SPDX-License-Identifier: Apache-2.0
//
// What the library has to do, without the library: the batched client, but every frame is kept until it is proved.
// A window of frames fills the memory they are kept in; a replacement is opened, with session resumption, a probe is
// sent and its answer read; the next window goes to the replacement.

#include <stdlib.h>

#include "gatherer.h"

// The library's distance.
enum { PREFETCH_BYTES = 1024 };

// Sends one window, whose identifiers begin with 1, and the probe behind it.
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
        // close_notify goes into the gatherer, too.
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
