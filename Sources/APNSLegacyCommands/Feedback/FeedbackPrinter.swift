// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Batch
import NIOConcurrencyHelpers
import TokenStore

/// Prints dead tokens to standard output.
final class FeedbackPrinter: Sendable {
    /// The output formats; SQL can only be written for complete lists.
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case text
        case csv
        case jsonl

        fileprivate var export: PurgeExport.Format {
            switch self {
            case .text: .text
            case .csv: .csv
            case .jsonl: .jsonLines
            }
        }
    }

    /// The number of bytes that are written at a time.
    private static let blockByteCount = 65_536

    private let export: NIOLockedValueBox<PurgeExport>
    private let console: Console

    init(_ format: Format, _ console: Console) {
        self.export = NIOLockedValueBox(PurgeExport(format.export))
        self.console = console
    }

    func print(_ entries: some Sequence<PurgeEntry>) throws {
        try self.export.withLockedValue { export in
            for entry in entries {
                export.append(entry)
                if export.bytes.count >= FeedbackPrinter.blockByteCount { try self.write(&export) }
            }
            try self.write(&export)
        }
    }

    func flush() throws { try self.export.withLockedValue { try self.write(&$0) } }

    private func write(_ export: inout PurgeExport) throws {
        // If writing fails, the spool delivers these tokens again.
        defer { export.removeAll() }
        try self.console.create("-").append(export.bytes.span)
    }
}
