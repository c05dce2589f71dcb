// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The forms of a report on standard output.
enum ReportForm: String, ExpressibleByArgument, CaseIterable {
    case text
    case json
}
