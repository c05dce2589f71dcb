// SPDX-License-Identifier: Apache-2.0
//
// The plain client: frames are encoded while sending, with one SSL_write, and thus one write(2), per 16 KiB.

#include "run.h"

enum { CHUNK_BYTES = 16384, CHUNK_FRAMES = CHUNK_BYTES / FRAME_BYTES };

int main(int count, char **arguments) {
    static struct run run;
    static uint8_t chunk[CHUNK_BYTES];
    run_open(&run, count, arguments);
    run_start(&run);
    for (uint32_t sent = 0; sent < run.count;) {
        uint32_t frames = run.count - sent < CHUNK_FRAMES ? run.count - sent : CHUNK_FRAMES;
        size_t bytes = run_encode(&run, sent + 1, frames, chunk);
        if (SSL_write(run.link.ssl, chunk, (int)bytes) != (int)bytes) fail("The connection ended while writing.");
        sent += frames;
    }
    put_probe(chunk, run.count + 1);
    if (SSL_write(run.link.ssl, chunk, PROBE_BYTES) != PROBE_BYTES) fail("The connection ended while writing.");
    run_read_answer(&run.link, run.count + 1);
    run_report(&run);
    run_close(&run.link);
    return 0;
}
