// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import Glibc

/// Reads lines of a file or stream in memory of a constant size; blank lines and those that begin with `#` count for
/// nothing.
struct PurgeLineReader {
    /// The longest line in bytes, without its end.
    static let lineByteCountMax = 65_536
    private static let blockByteCount = 262_144

    private let input: SendInput
    private var block = [UInt8](repeating: 0, count: Self.blockByteCount)
    private var lineNumber: UInt64 = 0

    init(_ input: SendInput) { self.input = input }

    var name: String { self.input.name }

    /// Lends each line with its number from 1, without white space at its ends.
    mutating func forEachLine(
        onProblem: (PurgeProblem, UInt64) -> Void,
        _ body: (String, UInt64) throws -> Void
    ) throws {
        var filled = 0
        var isSkipping = false
        while true {
            let count = try self.block.withUnsafeMutableBytes { block in
                try self.input.readNow(into: UnsafeMutableRawBufferPointer(rebasing: block[filled...]))
            }
            filled += count
            var first = 0
            while let newline = self.block[first..<filled].firstIndex(of: 0x0A) {
                try self.take(first..<newline, isSkipped: isSkipping, onProblem, body)
                isSkipping = false
                first = newline + 1
            }
            if count == 0 {
                if first < filled || isSkipping {
                    try self.take(first..<filled, isSkipped: isSkipping, onProblem, body)
                }
                return
            }
            if filled - first > Self.lineByteCountMax + 1 {
                isSkipping = true
                first = filled
            }
            self.block.withUnsafeMutableBytes { block in
                block.copyMemory(from: UnsafeRawBufferPointer(rebasing: block[first..<filled]))
            }
            filled -= first
        }
    }

    private mutating func take(
        _ range: Range<Int>,
        isSkipped: Bool,
        _ onProblem: (PurgeProblem, UInt64) -> Void,
        _ body: (String, UInt64) throws -> Void
    ) throws {
        self.lineNumber += 1
        let text: Result<String?, PurgeProblem> = self.block.withUnsafeBytes { block in
            var line = UnsafeRawBufferPointer(rebasing: block[range])
            if self.lineNumber == 1, line.starts(with: [0xEF, 0xBB, 0xBF]) {
                line = UnsafeRawBufferPointer(rebasing: line[3...])
            }
            line = line.trimmed
            guard !isSkipped, line.count <= Self.lineByteCountMax else {
                return .failure(.tooLong(byteCountMax: Self.lineByteCountMax))
            }
            guard !line.isEmpty, line.first != UInt8(ascii: "#") else { return .success(nil) }
            guard let text = String(validating: line, as: UTF8.self) else { return .failure(.notUTF8) }
            return .success(text)
        }
        switch text {
        case .success(let text?): try body(text, self.lineNumber)
        case .success(nil): break
        case .failure(let problem): onProblem(problem, self.lineNumber)
        }
    }
}
