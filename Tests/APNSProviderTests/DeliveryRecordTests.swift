// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import Foundation
import Testing

@Suite struct DeliveryRecordTests {
    @Test func `a record is a line with the caller's identifier`() throws {
        let report = DeliveryReport(.rejected(.binary(.invalidToken)), attempts: 2, isPossibleDuplicate: true)
        let record = DeliveryRecord(id: "user 7", report: report)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let json =
            #"{"attempts":2,"id":"user 7","outcome":"rejected","possibleDuplicate":true,"status":8,"#
            + #""statusText":"invalid token"}"#
        #expect(String(decoding: try encoder.encode(record), as: UTF8.self) == json)
        #expect("\(record)" == "user 7: rejected: 8 (invalid token), 2 attempts, possible duplicate")
        #expect(try JSONDecoder().decode(DeliveryRecord<String>.self, from: Data(json.utf8)) == record)
    }

    /// A job of a program that keeps its notifications and their reports.
    private struct PushJob: Codable, Equatable {
        var notification: PushNotification
        var report: DeliveryReport?
        var records: [DeliveryRecord<Int>] = []
    }

    @Test func `a job with a notification and its report is encoded and decoded`() throws {
        var notification = PushNotification(to: try DeviceToken("00ff7f"), APS(alert: "Hello", badge: 1))
        notification.expiry = .at(secondsSince1970: 1_900_000_000)
        notification.apnsID = PushIdentifier("123e4567-e89b-12d3-a456-42665544000a")
        var jobs = [PushJob(notification: notification)]
        let failure = ConnectionFailure(.nameNotResolved, "gateway.example: name not known", advice: "check it")
        let outcomes: [DeliveryOutcome] = [
            .accepted, .rejected(.binary(.invalidToken)),
            .rejected(.unregistered(at: Timestamp(secondsSince1970: 1_700_000_000))),
            .indeterminate(.cancelled), .unsent(.unavailable(failure)),
            .invalid(.payloadTooLong(byteCount: 9, limit: 8)),
            .suppressed,
        ]
        for outcome in outcomes {
            var report = DeliveryReport(
                outcome,
                attempts: 3,
                isPossibleDuplicate: true,
                latency: .nanoseconds(1_234_567)
            )
            report.apnsID = notification.apnsID
            report.apnsUniqueID = PushIdentifier("00000000-0000-4000-8000-000000000001")
            let records = [DeliveryRecord(id: 7, report: report)]
            jobs.append(PushJob(notification: notification, report: report, records: records))
        }
        let decoded = try JSONDecoder().decode([PushJob].self, from: try JSONEncoder().encode(jobs))
        #expect(decoded == jobs)
    }

    @Test func `an earlier attempt changes the advice`() {
        let busy = Rejection.http2(PushRejection(status: 429, reason: .tooManyRequests))
        let advice: [(DeliveryOutcome, RetryAdvice, RetryAdvice)] = [
            (.accepted, .never, .never), (.unsent(nil), .safe, .mayDuplicate),
            (.rejected(busy), .later(after: nil), .mayDuplicate), (.indeterminate(nil), .mayDuplicate, .mayDuplicate),
            (.rejected(.binary(.processingError)), .never, .never),
        ]
        for (outcome, first, later) in advice {
            #expect(DeliveryReport(outcome).retryAdvice == first)
            let record = DeliveryRecord(id: 1, report: DeliveryReport(outcome, isPossibleDuplicate: true))
            #expect(record.retryAdvice == later)
        }
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
