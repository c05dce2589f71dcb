// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import NIOConcurrencyHelpers
import NIOCore

/// Checks the payloads of a client on the callers' threads.
@usableFromInline
struct PayloadCheck: Sendable {
    /// The last valid payload: many notifications have the same one, and a comparison takes a tenth of the time of a
    /// check.
    private let lastValid = NIOLockedValueBox(ByteBuffer())

    /// The transport has its own limits for the length.
    private static let rules = PayloadRules(byteCountMax: .max)

    /// The outcome of a notification that must not be sent; `nil` if it may be sent.
    ///
    /// It depends only on the notification, so it is computed once, even if there is repeatedly no room.
    @usableFromInline
    func outcome(of notification: borrowing PushNotification) -> DeliveryOutcome? {
        let payload = notification.payload
        guard !self.lastValid.withLockedValue({ $0 == payload }) else { return nil }
        if let problem = Self.problem(of: payload) { return .invalid(.payload(problem)) }
        self.lastValid.withLockedValue { $0 = payload }
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
