// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import Testing

/// `apns-legacy feedback` is killed repeatedly.
@Suite(.timeLimit(.minutes(5))) struct FeedbackKillTests {
    static let killCount = TestEffort.count(12, long: 60)
    static let tupleCount = 600

    /// Goal: every token that was ever in the spool or on the list is on the list at the end, once, and no other token
    /// is.
    ///
    /// Method: a service deletes entries when it writes them, so nothing is sent twice; the program is killed at random
    /// times of a drain, and after each kill, independent code reads the spool and the list. Entries in transit are
    /// lost with such a service, so exactly a prefix of each connection must be present.
    @Test(arguments: [1]) func `kills at random times lose nothing that was spooled, and double nothing`(
        seed: UInt64
    ) async throws {
        let scene = try SendScene()
        let slow = Fault(at: .always, .slowWriting(TransferPace(byteCount: 997, interval: .milliseconds(2))))
        let store = ForgetfulStore(faults: [slow])
        try await SendScene.withFeedback(store) { port in
            var random = SplitMix64(seed: seed)
            var known: Set<[UInt8]> = []
            var midstreamCount = 0
            for round in 0..<Self.killCount {
                let first = round * Self.tupleCount
                store.add(try (first..<first + Self.tupleCount).map { try SendScene.tuple($0) })
                let openedCount = store.taken.count
                let child = try Child(scene.feedback(port), Child.Streams(error: scene.path("err")))
                // A few while it starts and imports earlier entries, most while it reads.
                if random.next() % 4 > 0 { for await _ in store.opened where store.taken.count > openedCount { break } }
                child.send(SIGKILL, after: .microseconds(Int64(random.next() % 60_000)))
                let ending = try await child.end()
                #expect(ending.signal == SIGKILL || ending.code == 0, "round \(round): \(scene.read("err"))")
                // A tuple that a kill truncated is not an error of the service.
                #expect(scene.spoolNames.allSatisfy { $0.hasSuffix(".spool") }, "round \(round): \(scene.spoolNames)")
                let there = try scene.purged().union(scene.spooled())
                #expect(
                    known.isSubset(of: there),
                    "round \(round), seed \(seed): \(known.subtracting(there).count) lost"
                )
                known = there
                for taken in store.taken {
                    let tokens = taken.map(\.token.bytes)
                    let count = tokens.prefix { there.contains($0) }.count
                    let isPrefix = !tokens.dropFirst(count).contains { there.contains($0) }
                    #expect(isPrefix, "round \(round), seed \(seed): a gap in what was kept")
                }
                let last = store.taken.last?.map(\.token.bytes) ?? []
                let keptCount = last.count { there.contains($0) }
                if keptCount > 0, keptCount < Self.tupleCount { midstreamCount += 1 }
            }
            let run = try await scene.run(scene.feedback(port))
            #expect(run.ending.code == 0, "\(run.error)")
            let rest = store.taken.last?.map(\.token.bytes) ?? []
            #expect(try scene.purged() == known.union(rest), "seed \(seed)")
            #expect(scene.spoolNames.isEmpty, "\(scene.spoolNames)")
            #expect(midstreamCount >= Self.killCount / 6, "Only \(midstreamCount) kills came in mid-stream.")
            print("\(Self.killCount) kills, \(midstreamCount) in mid-stream, \(known.count) tokens kept, none lost")
        }
    }
}
