// SPDX-License-Identifier: Apache-2.0

import Testing

/// A rule of the bridge that looks right and is wrong, in place of the one that is.
enum BridgeMutant: String, CaseIterable, CustomTestStringConvertible, Sendable {
    case remembersNothing = "what was delivered behind a rejection is forgotten"
    case remembersTooFew = "one notification is enough to remember"
    case remembersTooShortly = "a millisecond is long enough to remember"
    case keyHasIdentifier = "a resend has the identifier that it had before"
    case keyHasNoPayload = "a token alone tells notifications apart"
    case cutBehindNext = "the one right behind the rejection needs no remembering"
    case flyingCountsAsDelivered = "what is on its way when it is sent again will arrive"
    case failedCountsAsDelivered = "what is on its way behind a rejection will arrive"
    case verdictGoesToOldConnection = "a verdict goes where the notification came from at first"
    case deadIsRejected = "a dead device is an error"
    case spentIsAccepted = "what cannot be delivered in time was accepted"
    case troubleIsRejected = "trouble of the service is told as an invalid token"

    var testDescription: String { self.rawValue }
}
