// SPDX-License-Identifier: Apache-2.0

// The files that the simulator's control listener serves, as part of the program.

#ifndef SIMULATOR_PAGE_H
#define SIMULATOR_PAGE_H

/// A file that is part of the program.
struct embedded_file {
    /// Where it is served, such as "/page/app.js".
    const char *path;
    const char *content_type;
    const unsigned char *bytes;
    unsigned long byte_count;
};

/// The file with this index, from 0; `NULL` if there is none.
const struct embedded_file *embedded_file(unsigned long index);

#endif
