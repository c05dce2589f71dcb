// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Batch
import Foundation
import Testing

@Suite struct BatchResultWriterTests {
    static func append(
        _ writer: inout BatchResultWriter,
        line: Int = 1,
        id: String = "",
        token: [UInt8] = [0x0A, 0xFF],
        outcome: DeliveryOutcome.Kind = .accepted,
        status: UInt16? = nil,
        attempts: Int = 1,
        isPossibleDuplicate: Bool = false,
        reason: String? = nil
    ) throws -> Bool {
        let token = try DeviceToken(bytes: token)
        let outcome = LineOutcome(outcome, status: status, isDuplicate: isPossibleDuplicate)
        let result = LineResult(UInt64(line), outcome, attempts: attempts, reason: reason)
        return Array(id.utf8).withUnsafeBytes { writer.append(result, id: $0, token: token) }
    }

    @Test func `a line contains existing values and omits the rest`() throws {
        var writer = BatchResultWriter()
        #expect(try Self.append(&writer, line: 1_234_567_890, id: #"{"a":[1, 2]}"#))
        #expect(
            try Self.append(
                &writer,
                id: "0",
                outcome: .rejected,
                status: 255,
                attempts: 100,
                isPossibleDuplicate: true,
                reason: "a \"b\" \\ \u{1}\u{7F}é"
            )
        )
        #expect(
            String(decoding: writer.bytes, as: UTF8.self) == #"""
                {"line":1234567890,"id":{"a":[1, 2]},"token":"0aff","outcome":"accepted","attempts":1}
                {"line":1,"id":0,"token":"0aff","outcome":"rejected","status":255,"statusText":"unknown",\#
                "attempts":100,"possibleDuplicate":true,"reason":"a \"b\" \\ \u0001\u007fé"}

                """#
        )
    }

    @Test(arguments: DeliveryOutcome.Kind.allCases)
    func `a line is JSON with the given values`(_ outcome: DeliveryOutcome.Kind) throws {
        for count in 1...WireLimits.tokenByteCountMax {
            var writer = BatchResultWriter()
            let token = (0..<count).map { UInt8(truncatingIfNeeded: ($0 + count) &* 0x9D) }
            let reason = "a\"\\\u{0}\n" + String(repeating: "é😀", count: count)
            #expect(
                try Self.append(
                    &writer,
                    line: count,
                    id: "[null]",
                    token: token,
                    outcome: outcome,
                    status: UInt16(count),
                    reason: reason
                )
            )
            let object = try #require(
                try JSONSerialization.jsonObject(with: Data(writer.bytes)) as? [String: NSObject]
            )
            #expect(object["line"] as? Int == count)
            #expect(object["token"] as? String == token.map { String(format: "%02x", $0) }.joined())
            #expect(object["outcome"] as? String == outcome.name.description)
            #expect(object["status"] as? Int == count)
            #expect(object["reason"] as? String == reason)
            #expect((object["id"] as? [NSObject])?.first == NSNull())
        }
    }

    @Test(arguments: [0, 1, 9, 10, 11, 99, 100, 65_535, 1_000_000, Int.max])
    func `a number is written like the standard library writes it`(_ number: Int) throws {
        var writer = BatchResultWriter()
        #expect(try Self.append(&writer, line: number, attempts: number))
        let expected = "{\"line\":\(number),\"token\":\"0aff\",\"outcome\":\"accepted\",\"attempts\":\(number)}\n"
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }

    @Test func `a full writer writes nothing until it is emptied`() throws {
        var writer = BatchResultWriter(capacity: 2048)
        var count = 0
        while try Self.append(&writer, line: count, id: "\"x\"", reason: "why") {
            count += 1
            #expect(writer.byteCount <= 2048)
        }
        let byteCount = writer.byteCount
        #expect(count > 5)
        #expect(try !Self.append(&writer, reason: "why"))
        #expect(writer.byteCount == byteCount)
        #expect(writer.bytes.count { $0 == 0x0A } == count)
        writer.removeAll()
        #expect(writer.bytes.isEmpty)
        #expect(try Self.append(&writer, reason: "why"))
    }

    @Test func `a line that does not fit in an empty writer omits its reason, then its id`() throws {
        var writer = BatchResultWriter(capacity: 1024)
        let long = String(repeating: "1", count: 300)
        let bare = "{\"line\":1,\"token\":\"0aff\",\"outcome\":\"accepted\",\"attempts\":1}\n"
        #expect(try Self.append(&writer, id: long, reason: long))
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == bare.replacing(",\"token", with: ",\"id\":\(long),\"token")
        )
        #expect(try !Self.append(&writer, id: long, reason: long))
        writer.removeAll()
        #expect(try Self.append(&writer, id: long + long, reason: long))
        #expect(String(decoding: writer.bytes, as: UTF8.self) == bare)
    }

    @Test func `the longest line fits within the fixed limit`() throws {
        var writer = BatchResultWriter(capacity: 1024)
        let id = String(repeating: "9", count: 1024 - 640 - 60)
        let reason = String(repeating: "\u{1}", count: 10)
        #expect(
            try Self.append(
                &writer,
                line: .max,
                id: id,
                token: .init(repeating: 0xFF, count: 100),
                outcome: .indeterminate,
                status: 255,
                attempts: .max,
                isPossibleDuplicate: true,
                reason: reason
            )
        )
        #expect(String(decoding: writer.bytes, as: UTF8.self).contains("\\u0001\"}\n"))
        #expect(writer.byteCount <= 1024)
    }

    @Test func `an invalid line of the input becomes a result`() throws {
        var reader = try BatchReader(format: .jsonLines, options: smallOptions())
        var record = BatchRecord()
        reader.fill { target in
            target.copyBytes(from: "\n{\"x\":1}\n".utf8)
            return 9
        }
        #expect(reader.next(&record) == .bad)
        var writer = BatchResultWriter()
        if let problem = reader.problem {
            let isWritten = writer.append(problem)
            #expect(isWritten)
        }
        let expected =
            #"{"line":2,"outcome":"invalid","attempts":0,"reason":"column 2: unknown key \"x\"; "#
            + #"valid keys: token, payload, expiry, priority, id, topic, pushType, collapseId, apnsId"}"# + "\n"
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }
}
