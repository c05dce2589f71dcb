// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What became of one notification that a gateway handed on.
public enum Verdict: Hashable, Sendable {
    /// It was taken; the provider hears nothing.
    case accepted
    /// It was taken though its app is gone from the device: the provider hears of it from the feedback service only.
    case dead
    /// It was refused for a reason of its own, which the provider is told; what follows it is thrown away.
    case rejected(ErrorResponse.Status)
    /// It was refused for a reason of its own, which the provider is not told; what follows it is taken.
    ///
    /// - SeeAlso: ``RejectionPolicy/ignore``.
    case ignored
    /// It was not taken for a reason that is not its own: the provider is told that the service shuts down.
    case serviceFault
    /// Nobody knows whether it was taken: the connection closes without a word, so that it is in doubt for the
    /// provider, too, with all that the provider has no proof of.
    case inDoubt
    /// It was not taken because the service does not let the gateway in: as ``serviceFault`` where something was taken
    /// before it, else the connection closes without a word.
    case notPermitted
    /// It was taken, and nothing that follows it will be: the provider is told that the service shuts down.
    case acceptedAsLast
}

/// What a gateway does about a notification that is refused for a reason of its own.
public enum RejectionPolicy: String, CaseIterable, Hashable, Sendable {
    /// As the protocol has it: the provider is told, the connection ends, and what was written behind the notification
    /// is thrown away.
    case report
    /// The connection stays open, and what follows is taken; the provider is not told. For providers that never read an
    /// error response, and so would lose what they write behind it.
    case ignore
}
