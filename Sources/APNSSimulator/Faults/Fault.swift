// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A fault of a simulator: when it occurs, its effect, and the listener.
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
/// A fault occurs at each listener that supports it, or only at ``listener``. A simulator does not start with an
/// invalid fault: ``SimulatorError/fault(index:reason:)``.
///
/// If several faults are due at a notification, the first one that is not used up occurs.
public struct Fault: Hashable, Sendable {
    /// When a fault occurs.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Trigger: Hashable, Sendable {
        /// At each notification, or on each connection.
        case always
        /// At the notification with this number on its connection, from 1.
        case notification(UInt64)
        /// At the notification with this number among those of all connections and listeners, counted from 1 from the
        /// creation of the fault or from the last reset.
        case notificationOverall(UInt64)
        /// On the connection with this number at its listener, counted in the same way; at each of its notifications.
        case connection(UInt64)
        /// At each notification whose device token starts with these hexadecimal digits, in either letter case.
        case token(prefix: String)
        /// With this probability, from 0 to 1, at each notification or connection.
        ///
        /// The same seed selects the same connections by their numbers, and the same notifications by their numbers on
        /// these.
        case random(probability: Double, seed: UInt64)
        /// At each notification that meets all conditions.
        case matching(FaultConditions)
    }

    /// The effect of a fault.
    ///
    /// "Notification" is the one at which the fault is due; "binary" and "feedback" are the gateway of the binary
    /// protocol and the feedback service. The last seven effects apply to connections; they cannot be combined with a
    /// trigger for notifications or tokens.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Effect: Hashable, Sendable {
        /// The notification is rejected; binary or HTTP/2, depending on the rejection.
        case reject(Rejection)
        /// The notification is accepted after a delay; binary, HTTP/2.
        ///
        /// On a binary connection, later notifications wait. Over HTTP/2, the response is delayed.
        case delay(Duration)
        /// The notification is ignored, and the connection stays open; binary, HTTP/2.
        ///
        /// On a binary connection, later notifications are ignored, too, until
        /// `BinaryListenerConfiguration.outcomeTimeout` ends the connection.
        case ignore
        /// The notification is accepted, and the service shuts down after it: status 10, or GOAWAY after the newest
        /// stream with the reason Shutdown; binary, HTTP/2.
        case shutDown
        /// The connection ends before the notification is accepted, without a response; binary, HTTP/2.
        case closeBefore
        /// The notification is accepted, and the connection ends without a response; binary, HTTP/2.
        case closeAfter
        /// GOAWAY with this reason; neither this notification nor a later one is processed; HTTP/2.
        case goAway(PushReason)
        /// The stream is refused without processing (REFUSED_STREAM); HTTP/2.
        case refuseStream
        /// The stream is reset with an error code; HTTP/2.
        case resetStream(code: UInt32)
        /// From this notification on, the connection may have this many concurrent streams; HTTP/2.
        case limitStreams(Int)

        /// The connection is closed before the handshake; binary, feedback, HTTP/2.
        case refuseHandshake
        /// The connection is closed after the handshake; binary, feedback, HTTP/2.
        case refuseConnection
        /// The connection starts with GOAWAY instead of SETTINGS, and ends; HTTP/2.
        case goAwayFirst(PushReason)
        /// The connection is read at this rate, in bytes of ciphertext; binary, HTTP/2.
        case slowReading(TransferPace)
        /// No failure, but error responses to the provider's own errors and probes are sent as the fault's report
        /// specifies; binary.
        case errorResponse
        /// The list is written at this rate; feedback.
        ///
        /// 1000 tuples must be written within the listener's `FeedbackListenerConfiguration.progressTimeout`.
        case slowWriting(TransferPace)
        /// The connection ends after this many bytes of the list, possibly within a tuple; feedback.
        case cutList(byteCount: Int)
    }

    /// The maximum number of faults of a simulator.
    package static let countMax = 1000

    /// When the fault occurs.
    public var trigger: Trigger

    /// The effect.
    public var effect: Effect

    /// The only listener at which it occurs; `nil`, the default, for each that supports it.
    public var listener: SimulatorListener?

    /// How the error response is sent and the connection is ended.
    public var report: FaultReport

    /// The maximum number of occurrences, over all listeners; `nil`, the default, for no limit.
    public var occurrenceCountMax: Int?

    /// Creates a fault.
    ///
    /// - Parameters:
    ///   - trigger: when it occurs.
    ///   - effect: the effect.
    ///   - listener: the only listener at which it occurs; by default each that supports it.
    ///   - report: how the error response is sent and the connection is ended; by default as the protocol requires.
    ///   - occurrenceCountMax: the maximum number of occurrences; by default no limit.
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
    /// The notification is rejected with a status of the binary protocol, documented or not.
    ///
    /// - Parameter status: the status of the error response.
    /// - Returns: ``reject(_:)`` with it.
    public static func reject(status: UInt8) -> Self { .reject(.binary(ErrorResponse.Status(rawValue: status))) }

    /// The notification is rejected with a reason of HTTP/2, and the status of that reason.
    ///
    /// - Parameters:
    ///   - reason: the reason in the response.
    ///   - timestamp: when the app was removed; by default none.
    /// - Returns: ``reject(_:)`` with it; the status of an undocumented reason is 400.
    public static func reject(reason: PushReason, timestamp: Timestamp? = nil) -> Self {
        .reject(.http2(PushRejection(status: reason.status ?? 400, reason: reason, timestamp: timestamp)))
    }
}

/// The rate at which bytes are transferred over a connection.
public struct TransferPace: Hashable, Sendable {
    /// The maximum number of bytes at a time.
    static let byteCountMax = 1 << 20

    /// The number of bytes at a time, at least 1.
    public var byteCount: Int
    /// The interval between two transfers.
    public var interval: Duration

    /// Creates a rate.
    ///
    /// - Parameters:
    ///   - byteCount: the number of bytes at a time, at least 1.
    ///   - interval: the interval between two transfers.
    public init(byteCount: Int, interval: Duration) {
        self.byteCount = max(1, byteCount)
        self.interval = max(.zero, interval)
    }
}
