// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The forms of a report on standard output.
enum PurgeReportForm: String, ExpressibleByArgument, CaseIterable {
    case text
    case json
}
