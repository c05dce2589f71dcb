// SPDX-License-Identifier: Apache-2.0
//
// The batched client: one write(2) sends the records of 64 KiB of frames.

#include "gatherer.h"

int main(int count, char **arguments) {
    static struct run run;
    static uint8_t batch[GATHERED_BYTES_MAX];
    run_open(&run, count, arguments);
    gatherer_attach(&run.link);
    run_start(&run);
    for (uint32_t sent = 0; sent < run.count;) {
        uint32_t frames = run.count - sent < GATHERED_FRAMES_MAX ? run.count - sent : GATHERED_FRAMES_MAX;
        gatherer_encrypt(&run.link, batch, run_encode(&run, sent + 1, frames, batch));
        gatherer_send(&run.link);
        sent += frames;
    }
    put_probe(batch, run.count + 1);
    gatherer_encrypt(&run.link, batch, PROBE_BYTES);
    gatherer_send(&run.link);
    run_read_answer(&run.link, run.count + 1);
    run_report(&run);
    run_close(&run.link);
    return 0;
}
