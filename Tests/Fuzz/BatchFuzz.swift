// SPDX-License-Identifier: Apache-2.0

import APNSWire

@testable import Batch

/// The files of a batch.
enum BatchFuzz {
    /// The records are the same, however the input is split.
    static func batch(_ bytes: [UInt8], _ format: BatchFormat?) throws {
        if format == .csv { _ = bytes.withUnsafeBytes { CSVHeader.extraction(for: $0) } }
        let whole = try self.records(bytes, format, step: 65_536)
        try require(try whole == self.records(bytes, format, step: 3), "the records are the same in pieces")
    }

    private static func records(_ bytes: [UInt8], _ format: BatchFormat?, step: Int) throws -> [String] {
        var options = BatchOptions(now: 1_700_000_000)
        options.lineByteCountMax = 4096
        if format == nil { options.commonPayload = Array("{}".utf8) }
        // Most files end with a line feed, and are read as they are by default.
        switch bytes.last.map({ $0 & 3 }) {
        case 0:
            (options.columns, options.ignoresUnknownColumns) = (ColumnNames(.deadTokens), true)
            options.commonPayload = nil
        case 1: (options.requestFields, options.minifiesPayload) = (.without(.binary, topic: nil), false)
        case 3: options.commonPayload = Array(#"{"aps":{"alert":"x"}}"#.utf8)
        default: break
        }
        guard var reader = try? BatchReader(format: format, options: options) else { return [] }
        _ = reader.commonProblem
        var record = BatchRecord()
        var (offset, lines): (Int, [String]) = (0, [])
        while true {
            switch reader.next(&record) {
            case .record:
                let (payload, id) = (Array(record.payload), Array(record.id))
                // Dead tokens are texts.
                let texts = reader.texts.map { "\($0.key)=\($0.value)" }.sorted()
                lines.append("\(record.lineNumber) \(record.token.hexadecimal) \(texts) \(payload) \(id)")
            case .needMore:
                reader.fill { memory in
                    let end = min(offset + min(memory.count, step), bytes.count)
                    memory.copyBytes(from: bytes[offset..<end])
                    defer { offset = end }
                    return end - offset
                }
            case .end: return lines
            default: lines.append("\(reader.problem.map { "\($0)" } ?? "")")
            }
            try require(lines.count <= bytes.count + 1, "no more records than bytes")
        }
    }

    /// Compressed bytes are the same, however they are split, and an error stays one.
    static func gzip(_ bytes: [UInt8]) throws {
        func read(_ step: Int, _ room: Int) throws -> [UInt8]? {
            var decoder = try GzipDecoder()
            var (offset, output) = (0, [UInt8]())
            var memory = [UInt8](repeating: 0, count: room)
            while output.count < 1 << 20 {
                do {
                    let count = try memory.withUnsafeMutableBytes { memory in
                        try decoder.read(into: memory) { input in
                            let end = min(offset + min(input.count, step), bytes.count)
                            input.copyBytes(from: bytes[offset..<end])
                            defer { offset = end }
                            return end - offset
                        }
                    }
                    if count == 0 { return output }
                    output += memory[..<count]
                } catch {
                    return nil
                }
            }
            return []
        }
        let whole = try read(65_536, 4096)
        try require(try whole == read(1, 4096), "the same in pieces")
        try require(try whole == read(7, 1000) || whole?.count == 0, "the same in smaller pieces")
    }

    /// The outcomes are the same, however the file is split.
    ///
    /// With `+` in front, the input is lines without checksums, and gets them.
    static func journal(_ bytes: [UInt8]) throws {
        let isBare = bytes.first == UInt8(ascii: "+")
        let file = isBare ? self.withChecksums(bytes.dropFirst()) : bytes
        func read(_ step: Int) throws -> Result<SendJournal.Past, BatchFileError> {
            // The batch of the seeds.
            let input = "325-6764218b0df5e4a7 c2520816bac25e29"
            var reader = SendJournalReader(path: "journal", input: input, formerInput: "325", lineCount: 1000)
            do {
                for start in stride(from: 0, to: file.count, by: step) {
                    try reader.read(file[start..<min(start + step, file.count)])
                }
                return .success(try reader.finish())
            } catch let error as BatchFileError {
                return .failure(error)
            }
        }
        try require(try read(max(file.count, 1)) == read(7), "the outcomes or the error are the same in pieces")
    }

    private static func withChecksums(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var checksum = FNV1aHash()
        var file: [UInt8] = []
        for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).dropLast() {
            checksum.add(line)
            file.append(contentsOf: line)
            file.append(0x20)
            file.append(contentsOf: checksum.hexadecimal)
            file.append(0x0A)
        }
        return file
    }
}
