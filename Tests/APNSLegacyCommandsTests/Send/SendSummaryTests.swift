// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSSession
import APNSWire
import Batch
import Foundation
import Testing

@testable import APNSLegacyCommands

@Suite struct SendSummaryTests {
    static func outcomeCounts(_ counts: [DeliveryOutcome.Kind: UInt64]) -> OutcomeCounts {
        var outcomeCounts = OutcomeCounts()
        for (outcome, count) in counts {
            outcomeCounts.add(LineOutcome(outcome, status: outcome == .rejected ? 8 : nil), count: count)
        }
        return outcomeCounts
    }

    /// Counts, whether there was unread input, and the exit code.
    struct Ending: Sendable {
        var counts: [DeliveryOutcome.Kind: UInt64]
        var isInterrupted = false
        var code: Int32

        static let all: [Ending] = [
            Ending(counts: [.accepted: 3], code: 0), Ending(counts: [:], code: 0),
            Ending(counts: [.accepted: 3], isInterrupted: true, code: 75),
            Ending(counts: [.accepted: 1, .rejected: 1], code: 1), Ending(counts: [.invalid: 1], code: 1),
            Ending(counts: [.suppressed: 1], code: 1), Ending(counts: [.rejected: 1, .unsent: 1], code: 75),
            Ending(counts: [.accepted: 9, .indeterminate: 1], code: 75),
        ]
    }

    @Test(
        arguments: [
            (3, [DeliveryOutcome.Kind.accepted], false), (0, [.indeterminate], true), (3, [.indeterminate], true),
            (0, [.indeterminate, .accepted], false), (1, [.indeterminate, .rejected], false), (2, [], false),
        ] as [(UInt64, [DeliveryOutcome.Kind], Bool)]
    )
    func `only the outcomes of this run decide whether nothing was verified`(
        _ earlierCount: UInt64,
        _ outcomes: [DeliveryOutcome.Kind],
        _ isOnlyIndeterminate: Bool
    ) {
        var past = OutcomeCounts()
        past.add(LineOutcome(.indeterminate), count: earlierCount)
        past.add(LineOutcome(.accepted), count: 5)
        var counts = past
        for outcome in outcomes { counts.add(LineOutcome(outcome), count: 3) }
        #expect(counts.addsOnlyIndeterminate(to: past) == isOnlyIndeterminate)
    }

    @Test(arguments: Ending.all) func `the exit code follows from the counts`(_ ending: Ending) {
        var summary = SendSummary(outcomeCounts: Self.outcomeCounts(ending.counts), seconds: 1)
        summary.isInterrupted = ending.isInterrupted
        #expect(ExitStatus(summary).rawValue == ending.code)
    }

    @Test func `the summaries as text and as JSON have the same content`() throws {
        var outcomeCounts = Self.outcomeCounts([.accepted: 1_234_567, .rejected: 2])
        outcomeCounts.add(LineOutcome(.rejected, status: 7), count: 1)
        outcomeCounts.add(LineOutcome(.accepted, isDuplicate: true), count: 4)
        let summary = SendSummary(outcomeCounts: outcomeCounts, seconds: 2.5)
        #expect(summary.text.contains("1,234,574 notifications in 2.5 s"))
        #expect(summary.text.contains("1,234,571 accepted\n"))
        #expect(summary.text.contains("3 rejected (1 status 7: invalid payload size, 2 status 8: invalid token)"))
        #expect(summary.text.contains("4 of these may have arrived twice"))
        let object = try #require(try JSONSerialization.jsonObject(with: Data(summary.json.bytes)) as? [String: Any])
        #expect(object["accepted"] as? Int == 1_234_571 && object["total"] as? Int == 1_234_574)
        #expect(object["rejectedByStatus"] as? [String: Int] == ["7": 1, "8": 2])
        #expect(object["statusTexts"] as? [String: String] == ["7": "invalid payload size", "8": "invalid token"])
        #expect(object["possibleDuplicates"] as? Int == 4 && object["interrupted"] as? Bool == false)
    }

    @Test(arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] as [(UInt64, String)])
    func `digits are in groups of three`(_ number: UInt64, _ text: String) {
        #expect(number.grouped == text)
    }

    @Test func `the hash is FNV-1a with a separator after each part`() {
        var (parts, joined, empty) = (FNV1aHash(), FNV1aHash(), FNV1aHash())
        parts.add([1])
        parts.add([2])
        joined.add([1, 2])
        empty.add([])
        #expect(parts.value != joined.value)
        // The published FNV-1a 64 value of the single byte 0xFF.
        #expect(empty.value == 0xAF64_724C_8602_EB6E)
    }
}
