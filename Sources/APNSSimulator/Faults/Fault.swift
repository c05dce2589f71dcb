// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// One thing that goes wrong at the simulator.
public struct Fault: Hashable, Sendable, Codable {
    /// When it happens.
    public enum Trigger: Hashable, Sendable, Codable {
        /// At each notification for this token, in hexadecimal digits of either case.
        case token(String)
        /// At the message with this number on its connection, from 1.
        case message(UInt64)
        /// At the message with this number among those of all connections, from 1.
        case messageOverall(UInt64)
        /// When the connection with this number is made, from 1.
        case connection(UInt64)
        /// When any connection is made.
        case anyConnection
    }

    /// What happens.
    ///
    /// At a message, only the first three; at a connection, only the last two.
    public enum Effect: Hashable, Sendable, Codable {
        /// The message is refused with this status, documented or not.
        case reject(status: UInt8)
        /// The message is taken, and the service shuts down behind it with status 10.
        case shutDown
        /// The message is taken, and the connection ends behind it without a word.
        case cut
        /// The connection ends right after the handshake without a word.
        case refuse
        /// The connection is read at this pace.
        case slow(ReadingPace)
    }

    /// When it happens.
    public var trigger: Trigger

    /// What happens.
    public var effect: Effect

    /// How the provider is told and the connection ended.
    public var report: FaultReport

    /// How often it happens at most; `nil`, the default, for each time.
    public var occurrenceCountMax: Int?

    /// Makes a fault.
    ///
    /// - Parameters:
    ///   - trigger: when it happens.
    ///   - effect: what happens.
    ///   - report: how the provider is told and the connection ended; by default as the protocol asks for.
    ///   - occurrenceCountMax: how often it happens at most; by default each time.
    public init(
        at trigger: Trigger,
        _ effect: Effect,
        report: FaultReport = FaultReport(),
        occurrenceCountMax: Int? = nil
    ) {
        self.trigger = trigger
        self.effect = effect
        self.report = report
        self.occurrenceCountMax = occurrenceCountMax
    }
}

extension Fault: ScheduledFault {
    func occasion() throws -> FaultOccasion {
        switch self.trigger {
        case .token(let text): .token(try DeviceToken(text))
        case .message(let number): .message(number)
        case .messageOverall(let number): .messageOverall(number)
        case .connection(let number): .connection(number)
        case .anyConnection: .anyConnection
        }
    }
}
