// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSWire
import NIOConcurrencyHelpers

/// One thing that goes wrong at the simulator's HTTP/2 listener.
public struct PushFault: Hashable, Sendable {
    /// When it happens.
    public enum Trigger: Hashable, Sendable {
        /// At each request for this token.
        case token(DeviceToken)
        /// At the request with this number on its connection, from 1.
        case request(UInt64)
        /// At the request with this number among those of all connections, from 1.
        case requestOverall(UInt64)
        /// At each request: a storm, as long as ``PushFault/occurrenceCountMax`` says.
        case always
    }

    /// When it happens.
    public var trigger: Trigger

    /// What happens.
    public var reply: PushReply

    /// How often it happens at most; `nil`, the default, for each time.
    public var occurrenceCountMax: Int?

    /// Makes a fault.
    ///
    /// - Parameters:
    ///   - trigger: when it happens.
    ///   - reply: what happens.
    ///   - occurrenceCountMax: how often it happens at most; by default each time.
    public init(at trigger: Trigger, _ reply: PushReply, occurrenceCountMax: Int? = nil) {
        self.trigger = trigger
        self.reply = reply
        self.occurrenceCountMax = occurrenceCountMax
    }
}

/// Finds the faults that are due, and counts how often each happened.
final class PushFaultSchedule: Sendable {
    private let faults: [PushFault]
    private let occurrences: NIOLockedValueBox<[Int]>

    init(_ faults: [PushFault]) {
        self.faults = faults
        self.occurrences = NIOLockedValueBox(Array(repeating: 0, count: faults.count))
    }

    func reply(token: DeviceToken, request: UInt64, overall: UInt64) -> PushReply? {
        guard !self.faults.isEmpty else { return nil }
        return self.occurrences.withLockedValue { occurrences in
            for (index, fault) in self.faults.enumerated() {
                let isDue =
                    switch fault.trigger {
                    case .token(token), .request(request), .requestOverall(overall), .always: true
                    case .token, .request, .requestOverall: false
                    }
                guard isDue, occurrences[index] < fault.occurrenceCountMax ?? .max else { continue }
                occurrences[index] += 1
                return fault.reply
            }
            return nil
        }
    }
}
