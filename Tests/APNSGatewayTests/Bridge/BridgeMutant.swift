// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import Testing

@testable import APNSGateway

/// A plausible but wrong rule of the bridge, used instead of the correct one.
enum BridgeMutant: String, CaseIterable, CustomTestStringConvertible, Sendable {
    case remembersNothing = "notifications delivered after a rejection are forgotten"
    case remembersTooFew = "one notification is enough to remember"
    case remembersTooShortly = "a millisecond is long enough to remember"
    case keyHasIdentifier = "a resend has the identifier that it had before"
    case keyHasNoPayload = "a token alone identifies a notification"
    case cutBehindNext = "the notification directly after the rejection is not remembered"
    case tellsBeforeAnswers = "the error response is sent before the service has answered everything"
    case tellsBeforeDisk = "the error response is sent before expected resends are on the disk"
    case failedCountsAsDelivered = "a notification that failed after a rejection counts as delivered"
    case deadIsRejected = "a dead device is an error"
    case failedIsAccepted = "a notification that the service could not process counts as accepted"
    case throttledIsAccepted = "a throttled notification counts as accepted"
    case troubleIsRejected = "a temporary failure of the service is reported as an invalid token"

    var testDescription: String { self.rawValue }

    var rememberedDuration: Duration? { self == .remembersTooShortly ? .milliseconds(1) : nil }

    /// The rules of the bridge.
    var rules: BridgeRules {
        var rules = BridgeRules.exact
        switch self {
        case .remembersNothing: rules.remembered = { _ in [] }
        case .remembersTooFew: rules.remembered = { Array($0.prefix(1)) }
        case .keyHasIdentifier:
            rules.key = { content, identifier in
                ResendContent(
                    token: content.token,
                    payload: content.payload,
                    expiry: identifier,
                    priority: content.priority
                ).key
            }
        case .keyHasNoPayload:
            rules.key = { content, _ in
                ResendContent(
                    token: content.token,
                    payload: ByteBuffer(),
                    expiry: content.expiry,
                    priority: content.priority
                ).key
            }
        default: break
        }
        return rules
    }

    /// What the bridge receives for an answer of the service.
    func answer(_ answer: DeliveryOutcome, isConnectionEnding: Bool) -> DeliveryOutcome {
        let status: UInt16? = if case .rejected(let rejection) = answer { rejection.statusCode } else { nil }
        return switch self {
        case .failedCountsAsDelivered where isConnectionEnding: .accepted
        case .deadIsRejected where status == 410, .troubleIsRejected where status ?? 0 >= 500:
            .answered(status: 400, reason: "BadDeviceToken", timestamp: nil)
        case .throttledIsAccepted where status == 429: .accepted
        case .failedIsAccepted where answer.kind == .unsent || status == 403 || status ?? 0 >= 500: .accepted
        default: answer
        }
    }

    /// What the bridge receives for the end of a connection.
    func ending(_ ending: GatewayEnding) -> GatewayEnding {
        var ending = ending
        if self == .cutBehindNext { ending.number += 2 }
        return ending
    }
}

/// The backend of a walk, whose connections end as a mutant's do.
final class WalkBackend: DeliveryBackend {
    private let backend: HTTP2Backend
    private let mutant: BridgeMutant?
    /// The number of connections that end with an error response that was not sent yet.
    private let endingCount = NIOLockedValueBox(0)

    init(_ backend: HTTP2Backend, _ mutant: BridgeMutant?) {
        self.backend = backend
        self.mutant = mutant
    }

    var isConnectionEnding: Bool { self.endingCount.withLockedValue { $0 > 0 } }

    func admit(_ provider: ProviderConnection) -> Admission {
        let admission = self.backend.admit(provider)
        guard let mutant = self.mutant, case .admitted(let connection) = admission else { return admission }
        return .admitted(Connection(connection, mutant, self.endingCount))
    }

    private final class Connection: DeliveryConnection {
        private let connection: any DeliveryConnection
        private let mutant: BridgeMutant
        private let endingCount: NIOLockedValueBox<Int>

        init(_ connection: any DeliveryConnection, _ mutant: BridgeMutant, _ endingCount: NIOLockedValueBox<Int>) {
            self.connection = connection
            self.mutant = mutant
            self.endingCount = endingCount
        }

        var readingDelay: Duration? { self.connection.readingDelay }
        var rejectionPolicy: RejectionPolicy { self.connection.rejectionPolicy }
        var providerName: String? { self.connection.providerName }
        var isFull: Bool { self.connection.isFull }

        func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? { self.connection.deliver(message) }

        func deliverComplete() { self.connection.deliverComplete() }

        func isAdmitted(_ provider: ProviderConnection) -> Bool { self.connection.isAdmitted(provider) }

        func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void) {
            let isEarly = self.mutant == .tellsBeforeAnswers
            if isEarly { carryOut(ending) }
            let endingCount = self.endingCount
            endingCount.withLockedValue { $0 += 1 }
            self.connection.close(for: self.mutant.ending(ending)) { ending in
                endingCount.withLockedValue { $0 -= 1 }
                if !isEarly { carryOut(ending) }
            }
        }

        func closed() { self.connection.closed() }
    }
}
