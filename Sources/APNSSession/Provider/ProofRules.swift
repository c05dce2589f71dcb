// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// What the end of a connection says about the notifications that were written to it.
enum ConnectionProof: Equatable, Sendable {
    /// All of them were accepted.
    case provesAll
    /// The first `count` were accepted, the others discarded.
    case proves(count: UInt64)
    /// The one with this index from 0 was refused, all before it were accepted, all after it discarded.
    case names(index: UInt64)
    /// One of them was refused, but which is not said.
    case unknownIdentifier
    /// Nothing.
    case silence
}

/// How answers are interpreted.
///
/// The rules are a value so that tests can put wrong ones in their place and see that they are found out;
/// docs/accounting.md tells which look right and are wrong.
struct ProofRules: Sendable {
    /// Interprets an answer on a connection to which `count` notifications were written with the identifiers 1 to
    /// `count`, and behind them a probe where `isProbed` says so.
    var interpret: @Sendable (_ response: ErrorResponse, _ count: UInt64, _ isProbed: Bool) -> ConnectionProof

    /// What it says that a connection ends without an answer.
    var end: ConnectionProof

    /// The rules of the protocol.
    static let proved = ProofRules(interpret: ProofRules.interpret, end: .silence)

    @Sendable
    private static func interpret(_ response: ErrorResponse, count: UInt64, isProbed: Bool) -> ConnectionProof {
        let identifier = UInt64(response.identifier)
        let isNamed = identifier >= 1 && identifier <= count
        if response.status == .shutdown { return isNamed ? .proves(count: identifier) : .silence }
        if isNamed { return .names(index: identifier - 1) }
        if isProbed, identifier == count + 1 { return .provesAll }
        if isProbed, identifier == 0, response.status == .missingDeviceToken { return .provesAll }
        return .unknownIdentifier
    }
}
