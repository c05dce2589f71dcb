// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Testing

@testable import Batch

/// The events of reading a whole input, as values that outlive the reader.
enum BatchEvent: Equatable, CustomStringConvertible {
    case record(line: Int, token: String, payload: String, expiry: UInt32?, priority: UInt8?, id: String)
    case bad(String)
    case refused(String)

    var description: String {
        switch self {
        case .record(let line, let token, let payload, let expiry, let priority, let id):
            "\(line) \(token) \(payload) \(expiry.map(String.init) ?? "-") \(priority.map(String.init) ?? "-") \(id)"
        case .bad(let problem): "bad: \(problem)"
        case .refused(let problem): "refused: \(problem)"
        }
    }
}

/// Options with small buffers, so that tests reach their limits.
func smallOptions(line: Int = 256, block: Int = 64, common: String? = nil) -> BatchOptions {
    var options = BatchOptions(now: 1_700_000_000)
    options.lineByteCountMax = line
    options.blockByteCount = block
    options.commonPayload = common.map { Array($0.utf8) }
    return options
}

/// Reads a whole input, this number of bytes at a time.
func read(
    _ input: [UInt8],
    format: BatchFormat? = nil,
    options: BatchOptions = smallOptions(),
    chunk: Int = .max
) throws -> [BatchEvent] {
    var reader = try BatchReader(format: format, options: options)
    var record = BatchRecord()
    var events: [BatchEvent] = []
    var offset = 0
    while true {
        switch reader.next(&record) {
        case .record:
            events.append(
                .record(
                    line: record.lineNumber,
                    token: record.token.hexadecimal,
                    payload: String(decoding: record.payload, as: UTF8.self),
                    expiry: record.expiry,
                    priority: record.priority,
                    id: String(decoding: record.id, as: UTF8.self)
                )
            )
        case .bad:
            let problem = reader.problem
            events.append(.bad(try #require(problem).description))
        case .refused:
            let problem = reader.problem
            events.append(.refused(try #require(problem).description))
        case .needMore:
            reader.fill { target in
                let count = min(target.count, chunk, input.count - offset)
                target.copyBytes(from: input[offset..<(offset + count)])
                offset += count
                return count
            }
        case .end:
            let isEmpty = reader.lines.position == reader.lines.filled
            #expect(isEmpty)
            #expect(reader.next(&record) == .end)
            return events
        }
    }
}

func read(
    _ input: String,
    format: BatchFormat? = nil,
    options: BatchOptions = smallOptions(),
    chunk: Int = .max
) throws -> [BatchEvent] {
    try read(Array(input.utf8), format: format, options: options, chunk: chunk)
}

extension String {
    /// 64 hexadecimal digits that start with a number.
    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return digits + String(repeating: "0", count: 64 - digits.count)
    }
}

extension InputDecoder {
    /// Makes a decoder of bytes that come so many at a time.
    convenience init(_ bytes: [UInt8], chunk: Int = .max) {
        var offset = 0
        self.init(isHashed: false) { memory in
            let count = min(chunk, memory.count, bytes.count - offset)
            memory.copyBytes(from: bytes[offset..<(offset + count)])
            offset += count
            return count
        }
    }
}
