// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON

/// The results in a file behind those that its journal records, which a killed run left.
///
/// They are of lines whose intent was on the disk before. Results of other lines prove that the journal lost records.
enum SurplusResults {
    /// A longer line is skipped.
    private static let lineByteCountMax = 262_144
    private static let portionByteCount = 65_536

    /// Refuses results of lines that were sent without an intent in the journal: they would be sent again, and not be
    /// flagged as possible duplicates.
    ///
    /// - Throws: ``BatchFileError``.
    static func check(_ file: OutputFile, _ past: SendJournal.Past, journal: String) throws {
        guard file.byteCount > past.resultByteCount else { return }
        var lines = LineReader(lineByteCountMax: Self.lineByteCountMax, blockByteCount: Self.portionByteCount)
        var offset = past.resultByteCount
        while true {
            switch lines.next() {
            case .needMore:
                offset += UInt64(try unsafe lines.fill { try unsafe file.read(into: $0, at: offset) })
            case .tooLong: continue
            case .line(let line):
                guard let sent = unsafe Self.sentLine(line), !past.doubted.contains(sent) else { continue }
                throw BatchFileError(
                    .badData,
                    "\(file.name) has a result of line \(sent), which was not sent according to \(journal): the "
                        + "journal lost its last records, or the results are of another batch; nothing was sent; "
                        + "restore the journal, or delete both files to send everything again"
                )
            case .end: return
            }
        }
    }

    /// The line of the input that a result is of, if it says that the line was sent; `nil` for anything else, such as
    /// an incomplete result.
    private static func sentLine(_ result: UnsafeRawBufferPointer) -> UInt64? {
        guard let fields = unsafe JSONFields(Array(result)),
            let outcome = fields.string("outcome").flatMap({ DeliveryOutcome.Kind(name: $0) }),
            // What is unsent can be sent again without a duplicate.
            [.accepted, .rejected, .indeterminate].contains(outcome)
        else { return nil }
        return fields.integer("line")
    }
}
