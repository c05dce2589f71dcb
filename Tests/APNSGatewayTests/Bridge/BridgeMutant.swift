// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
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
    case spentIsAccepted = "a notification not delivered in time counts as accepted"
    case throttledIsAccepted = "a throttled notification counts as accepted"
    case troubleIsRejected = "a temporary failure of the service is reported as an invalid token"

    var testDescription: String { self.rawValue }

    var rememberedDuration: Duration? { self == .remembersTooShortly ? .milliseconds(1) : nil }

    var rules: BridgeRules {
        var rules = BridgeRules.exact
        switch self {
        case .remembersNothing: rules.remembered = { _ in [] }
        case .remembersTooFew: rules.remembered = { Array($0.prefix(1)) }
        case .remembersTooShortly: break
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
        case .cutBehindNext: rules.cut = { $0 + 2 }
        case .tellsBeforeAnswers: rules.waitsForSent = false
        case .tellsBeforeDisk: rules.waitsForStore = false
        case .failedCountsAsDelivered: rules.tracked = { _, _ in .delivered }
        case .deadIsRejected:
            rules.meaning = { if case .dead = $0 { .rejected(.invalidToken) } else { $0 } }
        case .spentIsAccepted:
            rules.ending = { outcome, cause in
                cause == .budgetSpent || cause == .credentialFault ? (.accepted, .accepted) : (outcome, cause)
            }
        case .throttledIsAccepted: rules.ending = { $1 == .throttled ? (.accepted, .accepted) : ($0, $1) }
        case .troubleIsRejected:
            rules.meaning = { if case .passing(.trouble) = $0 { .rejected(.invalidToken) } else { $0 } }
        }
        return rules
    }
}
