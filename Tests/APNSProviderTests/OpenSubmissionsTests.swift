// SPDX-License-Identifier: Apache-2.0

import APNSSession
import TestSupport
import Testing

@testable import APNSProvider

/// Goal: each notification is settled once, with its receiver and its key, in any order of submissions and outcomes.
@Suite struct OpenSubmissionsTests {
    private final class Receiver: SubmissionReceiver {
        func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {}
    }

    private struct Entry: Equatable {
        let receiver: ObjectIdentifier
        let key: UInt64
    }

    @Test(arguments: 0..<TestEffort.count(100, long: 5000) as Range<UInt64>)
    func `what is settled is what was submitted`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let receivers = [Receiver(), Receiver()]
        var (keys, number) = ([UInt64](repeating: 0, count: receivers.count), UInt64(0))
        var submissions = OpenSubmissions()
        var open: [UInt64: Entry] = [:]
        for _ in 0..<300 {
            switch random.below(8) {
            case 0...5:
                let index = random.chance(15) ? 1 : 0
                if random.chance(5) { keys[index] += 3 }
                // Others are settled without being sent.
                if random.chance(5) { number += 1 }
                submissions.append(number, receivers[index], key: keys[index])
                open[number] = Entry(receiver: ObjectIdentifier(receivers[index]), key: keys[index])
                keys[index] += 1
                number += 1
            case 6:
                let first = UInt64(random.below(Int(number) + 1))
                let part = first..<min(number, first + UInt64(random.below(40)) + 1)
                guard first < number, part.allSatisfy({ open[$0] != nil }) else { continue }
                let settled = submissions.settle(part).flatMap { receiver, keys in
                    keys.map { Entry(receiver: ObjectIdentifier(receiver), key: $0) }
                }
                #expect(settled == part.compactMap { open[$0] }, "seed \(seed)")
                for number in part { open[number] = nil }
            default:
                let receiver = receivers[random.below(2)]
                let found = submissions.numbers(of: receiver, in: 0..<number).flatMap { Array($0) }
                let expected = open.filter { $0.value.receiver == ObjectIdentifier(receiver) }.keys.sorted()
                #expect(Set(expected).isSubset(of: found), "seed \(seed)")
                #expect(found == found.sorted())
            }
        }
        for number in open.keys.sorted() {
            #expect(submissions.settle(number..<(number + 1)).first?.keys.first == open[number]?.key, "seed \(seed)")
        }
        #expect(submissions.isEmpty)
    }
}
