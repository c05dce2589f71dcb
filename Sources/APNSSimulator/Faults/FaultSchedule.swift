// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// When a fault is due, whichever protocol it is for.
enum FaultOccasion: Hashable, Sendable {
    /// At each message for this token.
    case token(DeviceToken)
    /// At the message with this number on its connection, from 1.
    case message(UInt64)
    /// At the message with this number among those of all connections, from 1.
    case messageOverall(UInt64)
    /// At each message.
    case anyMessage
    /// When the connection with this number is made, from 1.
    case connection(UInt64)
    /// When any connection is made.
    case anyConnection

    var isMessage: Bool {
        switch self {
        case .token, .message, .messageOverall, .anyMessage: true
        case .connection, .anyConnection: false
        }
    }
}

/// What a ``FaultSchedule`` has to know of a fault.
protocol ScheduledFault: Sendable {
    /// When it is due.
    ///
    /// - Throws: `WireError` for a token that is none.
    func occasion() throws -> FaultOccasion

    /// How often it happens at most; `nil` for each time.
    var occurrenceCountMax: Int? { get }
}

/// Finds the faults that are due, and counts how often each happened.
final class FaultSchedule<Fault: ScheduledFault>: Sendable {
    private let faults: [Fault]
    private let indices: [FaultOccasion: [Int]]
    private let hasMessageFaults: Bool
    private let occurrences: NIOLockedValueBox<[Int]>

    /// - Throws: `WireError` for a token that is none.
    init(_ faults: [Fault]) throws {
        self.faults = faults
        self.indices = try Dictionary(grouping: faults.indices) { try faults[$0].occasion() }
        self.hasMessageFaults = self.indices.keys.contains(where: \.isMessage)
        self.occurrences = NIOLockedValueBox(Array(repeating: 0, count: faults.count))
    }

    /// The fault that happens at a message.
    func fault(token: borrowing DeviceToken, message: UInt64, overall: UInt64) -> Fault? {
        guard self.hasMessageFaults else { return nil }
        return self.first(of: [.token(copy token), .message(message), .messageOverall(overall), .anyMessage])
    }

    /// The fault that happens when a connection is made.
    func fault(connection number: UInt64) -> Fault? { self.first(of: [.connection(number), .anyConnection]) }

    private func first(of occasions: [FaultOccasion]) -> Fault? {
        let due = occasions.flatMap { self.indices[$0] ?? [] }.sorted()
        guard !due.isEmpty else { return nil }
        return self.occurrences.withLockedValue { occurrences in
            for index in due where occurrences[index] < self.faults[index].occurrenceCountMax ?? .max {
                occurrences[index] += 1
                return self.faults[index]
            }
            return nil
        }
    }
}
