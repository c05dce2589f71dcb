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
    /// It was not taken for a reason that is not its own: the provider is told that the service shuts down.
    case serviceFault
    /// It was not taken because the service does not let the gateway in: as ``serviceFault`` where something was taken
    /// before it, else the connection closes without a word.
    case notPermitted
    /// It was taken, and nothing that follows it will be: the provider is told that the service shuts down.
    case acceptedAsLast
}
