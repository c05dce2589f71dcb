// SPDX-License-Identifier: Apache-2.0

import APNSWire
import JSON

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
    /// - Parameters:
    ///   - file: the results.
    ///   - past: the state in the journal.
    ///   - journal: its path.
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
        do throws(ScanFailure) {
            var scanner = unsafe JSONScanner(result)
            try scanner.begin()
            guard try scanner.kind() == .object else { return nil }
            scanner.enter()
            var (isFirst, isSent, line) = (true, false, UInt64?.none)
            while let key = try scanner.nextKey(isFirst: &isFirst) {
                let first = scanner.byteOffset
                try scanner.skipValue(enclosedBy: 1)
                let value = unsafe result[first..<scanner.byteOffset]
                switch unsafe String(decoding: scanner.bytes(of: key), as: UTF8.self) {
                case "line": line = unsafe UInt64(String(decoding: value, as: UTF8.self))
                case "outcome": isSent = unsafe Self.sentOutcomes.contains(String(decoding: value, as: UTF8.self))
                default: break
                }
            }
            try scanner.finish()
            return isSent ? line : nil
        } catch {
            return nil
        }
    }

    /// The outcomes of lines that were sent, as JSON; what is unsent can be sent again without a duplicate.
    private static let sentOutcomes = [DeliveryOutcome.Kind.accepted, .rejected, .indeterminate].map {
        "\"\($0.name)\""
    }
}
