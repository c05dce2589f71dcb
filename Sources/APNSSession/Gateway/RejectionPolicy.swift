// SPDX-License-Identifier: Apache-2.0

/// What a gateway does about a notification that is refused for a reason of its own.
///
/// Later versions may add cases.
@nonexhaustive
public enum RejectionPolicy: String, CaseIterable, Hashable, Sendable {
    /// As the protocol has it: the provider is told, the connection ends, and what was written behind the notification
    /// is thrown away.
    case report
    /// The connection stays open, and what follows is taken; the provider is not told. For providers that never read an
    /// error response, and so would lose what they write behind it.
    case ignore
}
