// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Batch
import Foundation
import Testing

/// Goal: a report that a program encodes as JSON has the same keys and values as the command's results, and besides
/// them only the cause of a reason, from which it is decoded.
@Suite struct ResultSpellingTests {
    @Test(arguments: [
        DeliveryReport(.accepted, attempts: 1), DeliveryReport(.suppressed),
        DeliveryReport(.rejected(.binary(.invalidToken)), attempts: 2, isPossibleDuplicate: true),
        DeliveryReport(.rejected(.unregistered(at: Timestamp(secondsSince1970: 1_700_000_000))), attempts: 1),
        DeliveryReport(.invalid(.payloadEmpty)), DeliveryReport(.unsent(.stopped), attempts: 1),
    ])
    func `both have the same keys and values, except for the cause`(report: DeliveryReport) throws {
        var writer = BatchResultWriter()
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let (status, isDuplicate) = (report.outcome.rejectionStatusCode, report.isPossibleDuplicate)
        let result = LineResult(
            1,
            LineOutcome(report.outcome.kind, status: status, isDuplicate: isDuplicate),
            timestamp: report.outcome.timestampNumber,
            attempts: report.attempts,
            reason: report.outcome.reasonText
        )
        let isWritten = writer.append(result, id: none, token: try DeviceToken("00ff"))
        #expect(isWritten)
        var line = try #require(JSONSerialization.jsonObject(with: Data(writer.bytes)) as? [String: NSObject])
        #expect(line.removeValue(forKey: "line") != nil)
        // A token in JSON has the same notation as in the results.
        let token = try JSONEncoder().encode(try DeviceToken("00ff"))
        let spelled = try JSONSerialization.jsonObject(with: token, options: .fragmentsAllowed) as? NSObject
        #expect(line.removeValue(forKey: "token") == spelled)
        let encoded = try JSONEncoder().encode(report)
        var object = try JSONSerialization.jsonObject(with: encoded) as? [String: NSObject]
        let cause = object?.removeValue(forKey: "cause")
        #expect((cause != nil) == (report.outcome.kind == .invalid || report.outcome.kind == .unsent))
        #expect(object == line)
        #expect(try JSONDecoder().decode(DeliveryReport.self, from: encoded) == report)
    }
}
