// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Batch
import Foundation
import TestSupport
import Testing

/// Goal: for any input, split in any way, no record is lost, duplicated or invented.
///
/// Method: inputs from seeds, which failures report, are written and read by separate code.
@Suite(.timeLimit(.minutes(2))) struct BatchRandomTests {
    /// A record to be written.
    private struct Sample {
        let token: String
        let payload: String
        let id: String
    }

    private static func sample(_ number: Int, _ random: inout SplitMix64) -> Sample {
        let alphabet: [Character] = Array("ab \",\n\r\\é😀{}:;")
        let text = String(
            (0..<Int.random(in: 0...30, using: &random)).compactMap { _ in alphabet.randomElement(using: &random) }
        )
        let id = "i\(number)" + text.filter { !$0.isWhitespace }
        var escaped = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": escaped += "\\\(scalar)"
            case "\n": escaped += "\\n"
            case "\r": escaped += "\\u000D"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        escaped += "\""
        return Sample(token: .token(number), payload: "{\"aps\":{\"alert\":\(escaped)}}", id: id)
    }

    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\"", with: "\"\"") + "\""
    }

    @Test(arguments: 0..<60 as Range<UInt64>)
    func `records written as JSON lines or CSV are read unchanged`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let samples = (1...20).map { Self.sample($0, &random) }
        for format in [BatchFormat.jsonLines, .csv] {
            var input = format == .csv ? "payload,token,id\n" : ""
            for sample in samples {
                let gap = ["", " ", "\t "].randomElement(using: &random) ?? ""
                let end = ["\n", "\r\n", "\n\n"].randomElement(using: &random) ?? "\n"
                if format == .csv {
                    // White space in a payload may contain line breaks.
                    let payload = sample.payload.replacing("{\"aps\":", with: "{\"aps\"\(gap)\(end):")
                    input += "\(Self.quoted(payload)),\(sample.token),\(Self.quoted(sample.id))\(end)"
                } else {
                    let id = String(decoding: try JSONEncoder().encode(sample.id), as: UTF8.self)
                    let payload = sample.payload.replacing("{\"aps\":", with: "{\(gap)\"aps\":\(gap)")
                    input += "{\"id\":\(gap)\(id),\"payload\":\(payload)\(gap),\"token\":\"\(sample.token)\"}\(end)"
                }
            }
            let chunk = Int.random(in: 1...200, using: &random)
            let events = try read(input, options: smallOptions(line: 512, block: 100), chunk: chunk)
            #expect(events.count == samples.count, "seed \(seed)")
            for (event, sample) in zip(events, samples) {
                guard case .record(_, let token, let payload, nil, nil, let id) = event else {
                    Issue.record("seed \(seed): \(event)")
                    continue
                }
                #expect(token == sample.token, "seed \(seed)")
                #expect(payload == sample.payload, "seed \(seed)")
                #expect(try JSONDecoder().decode(String.self, from: Data(id.utf8)) == sample.id, "seed \(seed)")
            }
        }
    }

    @Test(arguments: 0..<TestEffort.count(100, long: 2000) as Range<UInt64>)
    func `a line that resembles the one before is read as if it were alone`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let fields = [
            "", #","expiry":1800000000"#, #","expiry":"+1h""#, #","priority":5"#, #","id":1"#, #","topic":"a.b""#,
        ]
        let payloads = [#"{"aps":{"badge":1}}"#, #"{"aps":{"badge":2}}"#, #"{ "aps":{"badge":1}}"#, #"{"aps":}"#]
        var (field, payload) = (fields[0], payloads[0])
        let lines = (1...40).map { number in
            if random.chance(15) { field = fields[random.below(fields.count)] }
            if random.chance(15) { payload = payloads[random.below(payloads.count)] }
            var bytes = Array(#"{"token":"\#(String.token(number))","payload":\#(payload)\#(field)}"#.utf8)
            if random.chance(10) { bytes[random.below(bytes.count)] = Array("g\"A \\0}".utf8)[random.below(7)] }
            if random.chance(4) { bytes = [] }
            return String(decoding: bytes, as: UTF8.self) + (random.chance(5) ? "\r\n" : "\n")
        }
        let options = smallOptions(line: 512, block: 100 + random.below(2000))
        let together = try read(lines.joined(), format: .jsonLines, options: options, chunk: 1 + random.below(800))
        let alone = try lines.enumerated().flatMap { index, line in
            try read(String(repeating: "\n", count: index) + line, format: .jsonLines, options: options)
        }
        #expect(together == alone, "seed \(seed)")
    }

    @Test(arguments: 0..<TestEffort.count(25, long: 200) as Range<UInt64>)
    func `random bytes never trap, and are read the same regardless of splits`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var bytes: [UInt8] = []
        for number in 1...8 {
            let sample = Self.sample(number, &random)
            bytes += Array("\(Self.quoted(sample.payload)),\(sample.token)\n".utf8)
            bytes += Array("{\"payload\":\(sample.payload),\"token\":\"\(sample.token)\"}\n\(sample.token)\n".utf8)
        }
        let alphabet = Array("\"\"\",,\n\r{}\\x0 \0".utf8) + [0xEF, 0xBB, 0xBF, 0xFF]
        for _ in 0..<Int.random(in: 1...30, using: &random) {
            let index = Int.random(in: 0..<bytes.count, using: &random)
            let byte = alphabet.randomElement(using: &random) ?? 0
            if Bool.random(using: &random) { bytes[index] = byte } else { bytes.insert(byte, at: index) }
        }
        bytes = Array("token,payload\n".utf8) + bytes
        for format in [BatchFormat.jsonLines, .csv, .tokens] {
            let options = smallOptions(line: 160, block: 64, common: "{}")
            let whole = try read(bytes, format: format, options: smallOptions(line: 160, block: 100_000, common: "{}"))
            for chunk in [1, 13, Int.random(in: 1...500, using: &random)] {
                let events = try read(bytes, format: format, options: options, chunk: chunk)
                #expect(events == whole, "seed \(seed), \(format), chunks of \(chunk)")
            }
        }
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `a misplaced quote in a row does not affect other rows`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rows = (1...12).map { number in "\"{\"\"n\"\":\(number)}\",\(String.token(number))" }
        let bad = Int.random(in: 0..<rows.count, using: &random)
        var broken = rows
        // Adding or removing one quote makes the number of quotes odd.
        let quotes = rows[bad].indices.filter { rows[bad][$0] == "\"" }
        if let index = quotes.randomElement(using: &random) {
            if Bool.random(using: &random) {
                broken[bad].remove(at: index)
            } else {
                broken[bad].insert("\"", at: index)
            }
        }
        let input = "payload,token\n" + broken.joined(separator: "\n") + "\n"
        let events = try read(input, options: smallOptions(line: 4096, block: 64))
        let numbers = events.compactMap { event in
            if case .record(let line, _, _, _, _, _) = event { line - 1 } else { nil as Int? }
        }
        #expect(numbers == (1...12).filter { $0 != bad + 1 }, "seed \(seed)")
    }
}
