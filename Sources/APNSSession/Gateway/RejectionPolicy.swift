// SPDX-License-Identifier: Apache-2.0

/// How a gateway handles a notification that is refused for its own fault.
///
/// Later versions may add cases.
@nonexhaustive
public enum RejectionPolicy: String, CaseIterable, Hashable, Sendable {
    /// As in the protocol: an error response is sent, the connection ends, and what was written after the notification
    /// is discarded.
    case report
    /// The connection stays open, and what follows is accepted; the refusal is not reported. For providers that never
    /// read an error response, and would lose what they write after the notification.
    case ignore
}
