// SPDX-License-Identifier: Apache-2.0

// The files that the simulator's control listener serves, embedded in the program.

#ifndef SIMULATOR_PAGE_H
#define SIMULATOR_PAGE_H

/// An embedded file.
struct embedded_file {
    /// The path of its URL, such as "/page/app.js".
    const char *path;
    const char *content_type;
    const unsigned char *bytes;
    unsigned long byte_count;
};

/// The file with this index, from 0; `NULL` if it does not exist.
const struct embedded_file *embedded_file(unsigned long index);

#endif
