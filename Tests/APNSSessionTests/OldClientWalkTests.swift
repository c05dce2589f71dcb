// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import TestSupport
import Testing

/// Goal: no old client takes a notification for accepted that was not, when a connection ends without a rejection.
///
/// Method: random connections of clients that read error responses in their own ways. Each writes more than the gateway
/// reads; the service accepts some of it in any order, then it fails or the gateway stops. What the client makes of the
/// response is compared with what was accepted. Responses by rules that look right and are wrong must be found.
@Suite struct OldClientWalkTests {
    /// How a client numbers its notifications, and finds the one that an error response names.
    enum Client: CaseIterable {
        /// From 0; searches all notifications of the connection, and sends all again if it finds none.
        case fromZeroAndSearches
        /// From 1 or close to the largest number; compares numbers, and ignores 0.
        case comparesNumbers
        /// From 1 for each batch; searches only the current batch, and takes everything below the number for accepted.
        case countsEachBatch
        /// The same number for all; searches from the first one.
        case constant

        func identifiers(_ count: Int, _ random: inout SplitMix64) -> [UInt32] {
            switch self {
            case .fromZeroAndSearches: return (0..<UInt32(count)).map { $0 }
            case .comparesNumbers:
                let start: UInt32 = random.chance(1, of: 2) ? 1 : .max - UInt32(random.below(count + 1))
                return (0..<UInt32(count)).map { start &+ $0 }.map { $0 }
            case .countsEachBatch:
                var (identifiers, next) = ([UInt32](), UInt32(1))
                for _ in 0..<count {
                    identifiers.append(next)
                    next = random.chance(1, of: 8) ? 1 : next + 1
                }
                return identifiers
            case .constant: return [UInt32](repeating: 1234, count: count)
            }
        }

        /// The indices that the client takes for accepted because of a response; `nil` if it is confused for good.
        func accepted(_ response: ErrorResponse, _ identifiers: [UInt32]) -> Range<Int>? {
            let isShutdown = response.status == .shutdown
            switch self {
            case .fromZeroAndSearches, .constant:
                guard let index = identifiers.firstIndex(of: response.identifier) else { return nil }
                return 0..<(isShutdown ? index + 1 : index)
            case .comparesNumbers:
                if isShutdown, response.identifier == 0 { return 0..<identifiers.count }
                let end = identifiers.firstIndex {
                    Int32(bitPattern: $0 &- response.identifier) >= (isShutdown ? 1 : 0)
                }
                return 0..<(end ?? identifiers.count)
            case .countsEachBatch:
                // The first batches are complete for it as soon as it begins the next one.
                let start = (identifiers.lastIndex(of: 1) ?? 0)
                let end = identifiers[start...].firstIndex { $0 >= response.identifier } ?? identifiers.count
                return start..<(isShutdown ? min(end + 1, identifiers.count) : end)
            }
        }
    }

    /// What a gateway answers.
    enum Rule: CaseIterable {
        case exact, zeroIfNothingAccepted, unusedIfNothingAccepted, lastAcceptedThoughRepeated

        func response(_ ending: GatewayEnding, _ identifiers: [UInt32]) -> ErrorResponse? {
            let acceptedCount = Int(ending.number) - 1
            switch self {
            case .exact: return ending.response
            case .zeroIfNothingAccepted where acceptedCount == 0: return ErrorResponse(status: .shutdown, identifier: 0)
            case .unusedIfNothingAccepted where acceptedCount == 0:
                return ErrorResponse(status: .shutdown, identifier: identifiers[0] &- 1)
            case .lastAcceptedThoughRepeated where acceptedCount > 0:
                return ErrorResponse(status: .shutdown, identifier: identifiers[acceptedCount - 1])
            case .zeroIfNothingAccepted, .unusedIfNothingAccepted, .lastAcceptedThoughRepeated: return ending.response
            }
        }
    }

    /// - Returns: what is wrong; `nil` if nothing is.
    static func violation(seed: UInt64, _ rule: Rule) throws -> String? {
        var random = SplitMix64(seed: seed)
        let client = Client.allCases.randomElement(using: &random) ?? .constant
        let writtenCount = random.below(30) + 1
        var identifiers = client.identifiers(writtenCount, &random)
        let readCount = random.below(writtenCount) + 1
        var session = GatewaySession()
        for identifier in identifiers[..<readCount] {
            guard case .forward = session.receive(try GatewayFixture.message(identifier)) else { return "not taken" }
        }
        // What has arrived behind them is discarded, and the rest is never read.
        let discardedCount = random.below(writtenCount - readCount + 1)
        if client == .countsEachBatch {
            // It waits for errors before the next batch, so what is not read belongs to the same one.
            for index in readCount + discardedCount..<max(writtenCount, readCount + discardedCount) {
                identifiers[index] = identifiers[index - 1] + 1
            }
        }
        for identifier in identifiers[readCount..<readCount + discardedCount] {
            session.discarded(identifier: identifier)
        }
        // A stop, or a service that fails.
        let failed = random.below(readCount + 1)
        var ending: GatewayEnding?
        var waiting = Array(0..<failed)
        if failed < readCount {
            if case .finish(let end) = session.settle(UInt64(failed + 1), .unsent(nil)) { ending = end }
        } else if case .finish(let end) = session.shutDown(isAnnounced: true) {
            ending = end
        }
        while let index = waiting.indices.randomElement(using: &random) {
            if case .finish(let end) = session.settle(UInt64(waiting.remove(at: index) + 1), .accepted) { ending = end }
        }
        let hasDiscarded = readCount < writtenCount
        guard let ending = ending?.carriedOut(hasDiscarded: hasDiscarded, isInputClosed: false) else { return "no end" }
        guard let response = rule.response(ending, identifiers) else {
            // Nothing is claimed; where the first one is known, there has to be a response.
            let isClear = client == .fromZeroAndSearches || client == .comparesNumbers
            return isClear && failed < readCount ? "no response" : nil
        }
        guard let accepted = client.accepted(response, identifiers) else { return "\(client): unknown identifier" }
        return accepted.upperBound > failed ? "\(client): \(accepted) for \(failed) accepted, by \(response)" : nil
    }

    @Test(arguments: 0..<20 as Range<UInt64>) func `no client takes more for accepted than was`(part: UInt64) throws {
        let count: UInt64 = TestEffort.count(200, long: 5000)
        for seed in count * part..<count * (part + 1) {
            if let violation = try Self.violation(seed: seed, .exact) {
                Issue.record("seed \(seed): \(violation)")
                return
            }
        }
    }

    @Test(arguments: Rule.allCases.filter { $0 != .exact }) func `a wrong rule is found`(rule: Rule) throws {
        let found = try (0..<1000 as Range<UInt64>).first { try Self.violation(seed: $0, rule) != nil }
        #expect(found != nil)
    }
}
