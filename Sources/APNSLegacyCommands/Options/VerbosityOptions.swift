// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// How much a command reports.
struct VerbosityOptions: ParsableArguments, Sendable {
    @Flag(name: .shortAndLong, help: "Report only errors.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Log each connection.")
    var verbose = false
}
