// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Batch
import NIOConcurrencyHelpers
import Synchronization
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

    private let output: Mutex<PurgeOutput>

    init(_ format: Format, _ console: Console) throws {
        self.output = Mutex(PurgeOutput(try console.create("-"), PurgeExport(format.export)))
    }

    /// Prints entries; if that fails, the spool delivers them again.
    func print(_ entries: some Sequence<PurgeEntry>) throws {
        try self.output.withLock { output in
            for entry in entries { try output.append(entry) }
            try output.flush()
        }
    }

    func flush() throws { try self.output.withLock { try $0.flush() } }
}
