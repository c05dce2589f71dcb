// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import BatchFiles
import NIOConcurrencyHelpers
import TokenStore

/// Prints what was read to standard output.
final class FeedbackPrinter: Sendable {
    /// How it prints; SQL is for lists that are whole.
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

    /// So much is gathered before it is written, in bytes.
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
        // What could not be written comes again, from the spool.
        defer { export.removeAll() }
        try self.console.create("-").append(export.bytes.span)
    }
}
