// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@testable import APNSSimulator

/// Goal: a search of the record finds what reading all of it would find.
struct RecordSearchTests {
    private static func isIn(_ text: String, _ bytes: String) -> Bool {
        Array(bytes.utf8).withUnsafeBytes { SearchText(text).isIn($0) }
    }

    @Test func `a text is found without the case of ASCII letters`() {
        for text in ["", "a", "Hello", "hELLO w", "Ö", "o wÖrld", "d"] { #expect(Self.isIn(text, "aHello wÖrld")) }
        for text in ["b", "hello  ", "ö", "aHello wÖrldd", "@"] { #expect(!Self.isIn(text, "aHello wÖrld`")) }
        #expect(!SearchText("x").isIn(nil) && SearchText("APP").isIn("com.example.app"))
    }

    @Test func `digits are found in a token`() throws {
        let token: [UInt8] = [0x01, 0xAB, 0xCD]
        for text in ["01abcd", "1A", "d", "bc"] { #expect(token.withUnsafeBytes { SearchText(text).isIn(token: $0) }) }
        for text in ["01abcde", "g", "1b", "01abcd "] {
            #expect(!token.withUnsafeBytes { SearchText(text).isIn(token: $0) })
        }
    }

    @Test(arguments: 0..<4 as Range<UInt64>)
    func `a search by token returns the same as a comparison of each`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let recorder = NotificationRecorder(countMax: 1000, byteCountMax: .max)
        let tokens = try (0..<7).map { try SimulatorFixture.token($0) }
        for number in 0..<1500 {
            let token = number.isMultiple(of: 11) ? nil : tokens[Int.random(in: 0..<7, using: &random)]
            var notification = ReceivedNotification(
                listener: .http2,
                token: token,
                payload: Array("{}".utf8),
                connectionNumber: 1,
                notificationNumber: UInt64(number + 1)
            )
            notification.topic = Bool.random(using: &random) ? "a" : "b"
            _ = recorder.receive(notification) { _ in }
            if number == 1100 { recorder.removeAll() }
        }
        for order in NotificationQuery.Order.allCases {
            for countMax in [0, 1, 10, .max] {
                var query = NotificationQuery()
                query.order = order
                query.topic = "a"
                query.numbers = 1200...UInt64.random(in: 1200...1600, using: &random)
                var all = recorder.notifications(query, countMax: .max)
                #expect(!all.isEmpty)
                all = Array(all.filter { $0.notification.token == tokens[2] }.prefix(countMax))
                query.token = tokens[2]
                #expect(recorder.notifications(query, countMax: countMax).map(\.number) == all.map(\.number))
            }
        }
        #expect(Set(tokens.map(\.recordKey)).count == 7)
        #expect(recorder.notifications(Self.query(try SimulatorFixture.token(8)), countMax: 1).isEmpty)
    }

    private static func query(_ token: DeviceToken) -> NotificationQuery {
        var query = NotificationQuery()
        query.token = token
        return query
    }

    @Test func `a search by token continues where a portion ends`() throws {
        let (foundCount, searchedCount) = (300, Int(NotificationHistory.candidateLimits.searchedCount) + 100)
        var history = NotificationHistory(countMax: .max)
        let (token, other) = (try SimulatorFixture.token(1), try SimulatorFixture.token(2))
        for number in 1...foundCount + searchedCount {
            var notification = ReceivedNotification(
                listener: .http2,
                token: number <= foundCount ? token : other,
                payload: [],
                connectionNumber: 1,
                notificationNumber: UInt64(number)
            )
            _ = history.receive(&notification)
        }
        for order in NotificationQuery.Order.allCases {
            var (numbers, rest): ([UInt64], ClosedRange<UInt64>?) = ([], 0...UInt64.max)
            while let range = rest {
                let part = history.candidates(token.recordKey, range, order)
                numbers += part.found.map(\.number)
                rest = part.rest
            }
            #expect(numbers.sorted() == Array(1...UInt64(foundCount)))
        }
    }
}
