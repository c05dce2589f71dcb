// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// What the end of a connection shows about the notifications that were written to it.
enum VerificationResult: Equatable, Sendable {
    /// All of them were accepted.
    case allAccepted
    /// The first `count` were accepted, the others discarded.
    case accepted(count: UInt64)
    /// The one with this index from 0 was rejected, all before it were accepted, all after it discarded.
    case rejected(index: UInt64)
    /// One of them was rejected, but it is unknown which.
    case unidentifiedRejection
    /// Nothing.
    case unknown
}

/// The interpretation of answers.
///
/// The rules are a value so that tests can replace them with wrong ones and check that these are detected.
/// docs/accounting.md describes rules that look right but are wrong.
struct VerificationRules: Sendable {
    /// Interprets an answer on a connection to which `count` notifications were written with the identifiers 1 to
    /// `count`, followed by a probe if `isProbed` is set.
    var interpret: @Sendable (_ response: ErrorResponse, _ count: UInt64, _ isProbed: Bool) -> VerificationResult

    /// The meaning of a connection that ends without an answer.
    var end: VerificationResult

    /// The rules of the protocol.
    static let standard = VerificationRules(interpret: VerificationRules.interpret, end: .unknown)

    @Sendable
    private static func interpret(_ response: ErrorResponse, count: UInt64, isProbed: Bool) -> VerificationResult {
        let identifier = UInt64(response.identifier)
        let isNamed = identifier >= 1 && identifier <= count
        if response.status == .shutdown { return isNamed ? .accepted(count: identifier) : .unknown }
        if isNamed { return .rejected(index: identifier - 1) }
        if isProbed, identifier == count + 1 { return .allAccepted }
        if isProbed, identifier == 0, response.status == .missingDeviceToken { return .allAccepted }
        return .unidentifiedRejection
    }
}
