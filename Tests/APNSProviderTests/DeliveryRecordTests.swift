// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import Foundation
import Testing

@Suite struct DeliveryRecordTests {
    @Test func `a record is a line with the caller's identifier`() throws {
        let report = DeliveryReport(.rejected(.binary(.invalidToken)), attempts: 2, possibleDuplicate: true)
        let record = DeliveryRecord(id: "user 7", report: report)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let json =
            #"{"attempts":2,"id":"user 7","outcome":"rejected","possibleDuplicate":true,"status":8,"#
            + #""statusText":"invalid token"}"#
        #expect(String(decoding: try encoder.encode(record), as: UTF8.self) == json)
        #expect("\(record)" == "user 7: rejected: 8 (invalid token), 2 attempts, possible duplicate")
    }

    @Test func `a relative expiry uses the system clock`() throws {
        // The same clock on both sides: other clocks of the system are a few milliseconds ahead of it.
        let before = Int64(time(nil))
        let expiry = try #require(PushExpiry.after(.seconds(3600)).wireValue)
        let after = Int64(time(nil))
        #expect((before + 3600...after + 3600).contains(Int64(expiry)))
    }

    @Test func `an IPv6 address is in brackets`() throws {
        #expect(
            "\(Endpoint(host: "::1", port: 2195)) \(Endpoint.production)" == "[::1]:2195 gateway.push.apple.com:2195"
        )
        let endpoint = try JSONDecoder().decode(Endpoint.self, from: Data(#"{"host":"localhost","port":2196}"#.utf8))
        #expect(endpoint == Endpoint(host: "localhost", port: 2196))
    }
}
