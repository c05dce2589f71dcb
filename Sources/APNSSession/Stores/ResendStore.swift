// SPDX-License-Identifier: Apache-2.0

/// Stores, across restarts of the gateway, what was delivered although its provider is going to send it again.
///
/// Changes are applied in order. A store that cannot write keeps trying, and calls back only after it succeeded; the
/// provider gets no answer until then.
public protocol ResendStore: Sendable {
    /// The resends that are expected of a provider, for a duration from now.
    ///
    /// - Parameters:
    ///   - provider: the name of the provider.
    ///   - duration: how long they are expected.
    /// - Returns: the resends, the oldest first.
    func resends(of provider: String, for duration: Duration) -> [ExpectedResend]

    /// Stores expected resends.
    ///
    /// - Parameters:
    ///   - resends: the resends.
    ///   - provider: the provider.
    ///   - duration: how long they are expected, from when they are durable.
    ///   - onKept: is called once, on any thread, with `true` after all of them are durable, or immediately with
    ///     `false` if too many are waiting.
    func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    )

    /// Removes one expected resend with this key; if there are several, the one in the same place.
    ///
    /// - Parameters:
    ///   - resend: the notification that was sent again.
    ///   - provider: its provider.
    ///   - onRemoved: is called once, on any thread, after it is removed.
    func remove(_ resend: ExpectedResend, of provider: String, onRemoved: @escaping @Sendable () -> Void)
}

/// Stores nothing; the memory of the bridge is sufficient until the process restarts.
public struct VolatileResendStore: ResendStore {
    /// Creates a store.
    public init() {}

    /// Returns no resends.
    public func resends(of provider: String, for duration: Duration) -> [ExpectedResend] { [] }

    /// Calls back immediately.
    public func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        onKept(true)
    }

    /// Calls back immediately.
    public func remove(_ resend: ExpectedResend, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        onRemoved()
    }
}
