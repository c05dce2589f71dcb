// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Logging
import NIOConcurrencyHelpers
public import NIOCore

/// What a client checks in a payload before it sends it.
///
/// Later versions may add cases.
@nonexhaustive
public enum PayloadChecks: Hashable, Sendable {
    /// Only its length.
    ///
    /// Over the binary protocol, a Live Activity whose push type is not set then goes out as an alert.
    case none
    /// That it is valid, as by `Payload.check(rules:)`, and that it can be sent as what it is: others are not sent.
    case errors
    /// The same, and probable mistakes, as by `Payload.warnings(for:topic:)`.
    ///
    /// A payload with a probable mistake is sent. The client logs each kind of mistake once, at warning level, without
    /// names of unknown keys. The check takes several times as long as that for errors.
    case warnings
}

/// Checks the payloads of a client on the callers' threads.
@usableFromInline
struct PayloadValidator: Sendable {
    /// The last payload of a single call that is valid without a push type.
    private let lastValid = NIOLockedValueBox(ByteBuffer())

    /// `nil` if probable mistakes are not logged.
    private let warnings: PayloadWarningLog?

    /// The topic of all notifications; `nil` if the transport infers the push type itself.
    private let topic: FixedTopic?

    /// The transport has its own limits for the length.
    private static let rules = PayloadRules(byteCountMax: .max)

    /// Creates a validator; `nil` if there is nothing to check.
    init?(_ checks: PayloadChecks, _ topic: FixedTopic?, _ logger: Logger) {
        guard checks != .none else { return nil }
        self.topic = topic
        self.warnings = checks == .warnings ? PayloadWarningLog(logger) : nil
    }

    /// The outcome of a notification that must not be sent; `nil` if it may be sent.
    ///
    /// It depends only on the notification, so it is computed once, even if there is repeatedly no room.
    func outcome(of notification: borrowing PushNotification) -> DeliveryOutcome? {
        var lastValid = self.lastValid.withLockedValue { $0 }
        guard lastValid != notification.payload else { return nil }
        let outcome = self.outcome(of: notification, after: &lastValid)
        self.lastValid.withLockedValue { $0 = lastValid }
        return outcome
    }

    /// The same for notifications of one sequence, with the last of their payloads that is valid without a push type:
    /// many have the same one, and a comparison takes a tenth of the time of a check.
    @usableFromInline
    func outcome(
        of notification: borrowing PushNotification,
        after lastValid: inout ByteBuffer
    ) -> DeliveryOutcome? {
        guard lastValid != notification.payload else { return nil }
        let payload = notification.payload
        if let problem = Self.problem(of: payload) { return .invalid(.payload(problem)) }
        let typeProblem = self.topic.flatMap { topic in
            unsafe payload.withUnsafeReadableBytes { unsafe PayloadTraits($0) }.problem(for: topic)
        }
        if let typeProblem, notification.pushType == nil { return .invalid(typeProblem) }
        self.warnings?.check(payload, pushType: notification.pushType, topic: notification.topic)
        if typeProblem == nil { lastValid = payload }
        return nil
    }

    /// The problem of a payload; `nil` if it is empty, which the transport reports.
    private static func problem(of payload: ByteBuffer) -> PayloadProblem? {
        guard payload.readableBytes > 0 else { return nil }
        return unsafe payload.withUnsafeReadableBytes { bytes in
            do throws(PayloadProblem) {
                unsafe try Payload.check(bytes, rules: Self.rules)
                return nil
            } catch {
                return error
            }
        }
    }
}

extension ByteBuffer {
    /// The problem of the length of a payload.
    package func lengthProblem(limit: Int) -> DeliveryOutcome.InvalidReason? {
        let count = self.readableBytes
        guard count > 0 else { return .payloadEmpty }
        return count > limit ? .payloadTooLong(byteCount: count, limit: limit) : nil
    }
}

/// Logs probable mistakes in payloads.
final class PayloadWarningLog: Sendable {
    private let logger: Logger
    /// The texts of the logged kinds, a limited number, since they contain only known keys.
    private let logged = NIOLockedValueBox<Set<String>>([])

    init(_ logger: Logger) { self.logger = logger }

    /// Checks a valid payload.
    func check(_ payload: ByteBuffer, pushType: PushType?, topic: String?) {
        let payload = Payload(bytes: Array(payload.readableBytesView))
        for warning in (try? payload.warnings(for: pushType, topic: topic)) ?? [] {
            let text = warning.textOfKnownKeys
            guard self.logged.withLockedValue({ $0.insert(text).inserted }) else { continue }
            // The logger of the caller's task, whose metadata says where the payload comes from.
            let logger = Logger.current.label.isEmpty ? self.logger : Logger.current
            logger.warning("probable mistake in a payload: \(text)")
        }
    }
}
