// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// Finds the faults that are due, and counts how often each happened.
final class FaultSchedule: Sendable {
    let report: FaultReport

    private let faults: [Fault]
    private let byToken: [DeviceToken: [Int]]
    private let byMessage: [UInt64: [Int]]
    private let byMessageOverall: [UInt64: [Int]]
    private let hasMessageFaults: Bool
    private let occurrences: NIOLockedValueBox<[Int]>

    /// - Throws: `WireError` for a token that is none.
    init(_ plan: FaultPlan) throws {
        self.report = plan.report
        self.faults = plan.faults
        var byToken: [DeviceToken: [Int]] = [:]
        var byMessage: [UInt64: [Int]] = [:]
        var byMessageOverall: [UInt64: [Int]] = [:]
        for (index, fault) in plan.faults.enumerated() {
            switch fault.trigger {
            case .token(let text): byToken[try DeviceToken(text), default: []].append(index)
            case .message(let number): byMessage[number, default: []].append(index)
            case .messageOverall(let number): byMessageOverall[number, default: []].append(index)
            case .connection, .anyConnection: break
            }
        }
        self.byToken = byToken
        self.byMessage = byMessage
        self.byMessageOverall = byMessageOverall
        self.hasMessageFaults = !(byToken.isEmpty && byMessage.isEmpty && byMessageOverall.isEmpty)
        self.occurrences = NIOLockedValueBox(Array(repeating: 0, count: plan.faults.count))
    }

    /// The fault that happens at a message.
    func fault(token: borrowing DeviceToken, message: UInt64, overall: UInt64) -> Fault? {
        guard self.hasMessageFaults else { return nil }
        var due: [Int] = []
        if !self.byToken.isEmpty { due += self.byToken[copy token] ?? [] }
        due += self.byMessage[message] ?? []
        due += self.byMessageOverall[overall] ?? []
        return due.isEmpty ? nil : self.first(of: due.sorted())
    }

    /// The fault that happens when a connection is made.
    func fault(connection number: UInt64) -> Fault? {
        let due = self.faults.indices.filter { index in
            switch self.faults[index].trigger {
            case .connection(number), .anyConnection: true
            case .connection, .token, .message, .messageOverall: false
            }
        }
        return due.isEmpty ? nil : self.first(of: due)
    }

    private func first(of due: [Int]) -> Fault? {
        self.occurrences.withLockedValue { occurrences in
            for index in due where occurrences[index] < self.faults[index].occurrenceCountMax ?? .max {
                occurrences[index] += 1
                return self.faults[index]
            }
            return nil
        }
    }
}
