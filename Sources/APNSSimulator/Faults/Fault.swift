// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// One thing that goes wrong at a simulator: when, what, and at which of its listeners.
///
/// ```swift
/// configuration.faults = [
///     Fault(at: .notification(10), .closeAfter, report: FaultReport(ending: .reset)),
///     Fault(at: .token(prefix: "ff"), .reject(status: 8)),
///     Fault(at: .always, .reject(reason: .tooManyRequests), occurrenceCountMax: 3),
///     Fault(at: .connection(1), .cutList(byteCount: 100)),
/// ]
/// ```
///
/// A fault happens at each listener that can have it, or at ``listener`` alone. A simulator does not start with one
/// that can happen nowhere, and says why: ``SimulatorError/fault(index:reason:)``.
///
/// Where several are due at the same notification, the first of them that may still happen does.
public struct Fault: Hashable, Sendable {
    /// When a fault happens.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Trigger: Hashable, Sendable {
        /// At each notification, or on each connection.
        case always
        /// At the notification with this number on its connection, from 1.
        case notification(UInt64)
        /// At the notification with this number among those of all connections and listeners, from 1.
        case notificationOverall(UInt64)
        /// On the connection with this number at its listener, from 1; at each notification of it.
        case connection(UInt64)
        /// At each notification whose device token begins with these hexadecimal digits, in either letter case.
        case token(prefix: String)
        /// With this probability, from 0 to 1, at each notification or connection.
        ///
        /// The same seed chooses the same connections by their numbers, and the same notifications by their numbers on
        /// these.
        case random(probability: Double, seed: UInt64)
    }

    /// What happens.
    ///
    /// "Notification" stands for the one at which the fault is due; "binary" and "feedback" for the gateway of the
    /// binary protocol and the feedback service. The last seven happen to connections, so that a trigger with a
    /// notification or a token is refused.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Effect: Hashable, Sendable {
        /// The notification is refused so; binary or HTTP/2, as the rejection is.
        case reject(Rejection)
        /// The notification is taken, but only after this time; binary, HTTP/2.
        ///
        /// On a binary connection all behind it waits. Over HTTP/2 its answer is late.
        case delay(Duration)
        /// The notification is neither taken nor answered, and the connection stays open; binary, HTTP/2.
        ///
        /// On a binary connection nothing behind it is taken either, until the listener's
        /// `BinaryListenerConfiguration.outcomeTimeout` ends it.
        case ignore
        /// The notification is taken, and the service shuts down behind it: status 10, or GOAWAY behind the newest
        /// stream with the reason Shutdown; binary, HTTP/2.
        case shutDown
        /// The connection ends before the notification is taken, and the provider is told nothing; binary, HTTP/2.
        case closeBefore
        /// The notification is taken, and the connection ends behind it; the provider is told nothing; binary, HTTP/2.
        case closeAfter
        /// The service goes away with this reason, and has processed neither this notification nor any behind it;
        /// HTTP/2.
        case goAway(PushReason)
        /// The stream is refused, unprocessed (REFUSED_STREAM); HTTP/2.
        case refuseStream
        /// The stream is ended with a code of HTTP/2; HTTP/2.
        case resetStream(code: UInt32)
        /// From the notification on, its connection may have so many streams at a time; HTTP/2.
        case limitStreams(Int)

        /// The connection is closed instead of a handshake; binary, feedback, HTTP/2.
        case refuseHandshake
        /// The connection is closed right after the handshake; binary, feedback, HTTP/2.
        case refuseConnection
        /// The connection begins with GOAWAY where SETTINGS are due, and ends; HTTP/2.
        case goAwayFirst(PushReason)
        /// The connection is read at this pace, in bytes of ciphertext; binary, HTTP/2.
        case slowReading(TransferPace)
        /// Nothing goes wrong, but the provider's own mistakes and its probes are answered as the fault's report says;
        /// binary.
        case errorResponse
        /// The list is written at this pace; feedback.
        ///
        /// 1000 tuples have to be done within the listener's `FeedbackListenerConfiguration.progressTimeout`.
        case slowWriting(TransferPace)
        /// The connection ends behind so many bytes of the list, be it inside a tuple; feedback.
        case cutList(byteCount: Int)
    }

    /// How many faults a simulator may have.
    package static let countMax = 1000

    /// When it happens.
    public var trigger: Trigger

    /// What happens.
    public var effect: Effect

    /// The only listener at which it happens; `nil`, the default, for each that can have it.
    public var listener: SimulatorListener?

    /// How the provider is told and the connection ended.
    public var report: FaultReport

    /// How often it happens at most, at all listeners together; `nil`, the default, for each time.
    public var occurrenceCountMax: Int?

    /// Makes a fault.
    ///
    /// - Parameters:
    ///   - trigger: when it happens.
    ///   - effect: what happens.
    ///   - listener: the only listener at which it happens; by default each that can have it.
    ///   - report: how the provider is told and the connection ended; by default as the protocol asks for.
    ///   - occurrenceCountMax: how often it happens at most; by default each time.
    public init(
        at trigger: Trigger,
        _ effect: Effect,
        listener: SimulatorListener? = nil,
        report: FaultReport = FaultReport(),
        occurrenceCountMax: Int? = nil
    ) {
        self.trigger = trigger
        self.effect = effect
        self.listener = listener
        self.report = report
        self.occurrenceCountMax = occurrenceCountMax
    }
}

extension Fault.Effect {
    /// The notification is refused with a status of the binary protocol, documented or not.
    ///
    /// - Parameter status: the status of the error response.
    /// - Returns: ``reject(_:)`` with it.
    public static func reject(status: UInt8) -> Self { .reject(.binary(ErrorResponse.Status(rawValue: status))) }

    /// The notification is refused with a reason of HTTP/2, and the status that goes with it.
    ///
    /// - Parameters:
    ///   - reason: what the service gives as the reason.
    ///   - timestamp: since when the app is gone, in milliseconds since 1970 (UTC); by default none is said.
    /// - Returns: ``reject(_:)`` with it; the status of a reason that is not documented is 400.
    public static func reject(reason: PushReason, timestamp: UInt64? = nil) -> Self {
        .reject(.http2(PushRejection(status: reason.status ?? 400, reason: reason, timestamp: timestamp)))
    }
}
