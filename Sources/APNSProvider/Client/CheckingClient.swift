// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore

/// A client transport that checks payloads on the caller's thread.
struct CheckingClient: ClientTransport {
    private let transport: any ClientTransport

    /// The last valid payload: many notifications have the same one, and a comparison takes a tenth of the time of a
    /// check.
    private let lastValid = NIOLockedValueBox(ByteBuffer())

    /// - Parameter transport: the transport for valid notifications.
    init(_ transport: any ClientTransport) { self.transport = transport }

    /// The transport has its own limits for the length.
    private static let rules = PayloadRules(byteCountMax: .max)

    var observer: DeliveryObserver { self.transport.observer }

    func localOutcome(of notification: borrowing PushNotification) -> DeliveryOutcome? {
        let payload = notification.payload
        guard !self.lastValid.withLockedValue({ $0 == payload }) else { return nil }
        if let problem = Self.problem(of: payload) { return .invalid(.payload(problem)) }
        self.lastValid.withLockedValue { $0 = payload }
        return nil
    }

    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt { self.transport.submit(notification, receiver, key: key) }

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

    func settleHere(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        self.transport.settleHere(outcome, receiver, key: key)
    }

    func waitForRoom() async { await self.transport.waitForRoom() }

    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.transport.waitForEnd() }

    func checkpoint() { self.transport.checkpoint() }

    func endSequence() { self.transport.endSequence() }

    func allow(_ token: DeviceToken) { self.transport.allow(token) }

    func run() async throws(ProviderError) { try await self.transport.run() }

    func finish() { self.transport.finish() }

    func stop() { self.transport.stop() }
}
