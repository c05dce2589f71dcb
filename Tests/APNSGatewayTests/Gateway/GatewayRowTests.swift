// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import APNSGateway

struct GatewayRowTests {
    private static func key(_ random: inout SplitMix64) throws -> ResendKey {
        let bytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
        return try #require(ResendKey(bytes: bytes))
    }

    @Test func `a row is the same after it was stored`() throws {
        var random = SplitMix64(seed: 3)
        let until = Timestamp(millisecondsSince1970: 1_700_000_000_123)
        for round in 0..<200 {
            var expected = ExpectedResend(key: try Self.key(&random))
            if round % 2 == 0 {
                let response = Int64.random(in: .min...(.max), using: &random)
                expected.place = .init(response: response, index: .random(in: 0...(.max), using: &random))
            }
            if round % 3 == 0 {
                let milliseconds = Int64.random(in: .min...(.max), using: &random)
                expected.lifetime = .init(content: try Self.key(&random), milliseconds: milliseconds)
            }
            let provider = ["shop", "a shop/with - signs", "", " "][round % 4]
            let row = GatewayRow.resend(GatewayRow.Resend(expected, provider: provider))
            guard case .resend(let read) = try GatewayRow(key: row.key, value: row.value(until: until)) else {
                Issue.record("\(row.key) is no resend")
                continue
            }
            #expect(read.expected == expected && read.provider == provider && read.until == until)
            #expect(read.key == row.key && row.key.utf8.count < 64)
        }
        for topic in ["com.example.app", "a/b", ""] {
            let token = try DeviceToken(bytes: [1, 2, 3])
            let tuple = FeedbackTuple(token: token, failedAt: 1_700_000_000)
            let list = TokenScope(topic: topic, environment: .sandbox)
            let row = GatewayRow.dead(tuple, list)
            guard case .dead(tuple, list) = try GatewayRow(key: row.key, value: row.value(until: until)) else {
                Issue.record("\(row.key) is no dead token")
                continue
            }
        }
    }

    @Test(arguments: [
        ("", ""), ("dead", "1"), ("dead/production/ab/x", "-1"), ("dead/moon/ab/x", "1"), ("dead/sandbox/zz/x", "1"),
        ("resend/1", ""), ("resend/1", "1 - - - ab - shop"), ("other/1", "1"),
    ])
    func `a row of another kind is an error`(key: String, value: String) {
        #expect(throws: GatewayRow.Invalid.self) { try GatewayRow(key: key, value: value) }
    }
}
