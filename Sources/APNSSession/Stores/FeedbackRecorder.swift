// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Stores the dead tokens that a bridge learns of until the feedback service delivers them to the provider.
public protocol FeedbackRecorder: Sendable {
    /// Stores a tuple; if there are several for a token, the newest.
    ///
    /// - Parameters:
    ///   - tuple: the token and the time since when it is dead.
    ///   - list: the list to add it to.
    ///   - onKept: is called once, on any thread, after the tuple is durable or cannot be stored.
    func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void)

    /// Removes a token from the list, since a notification for it was delivered.
    ///
    /// It is called for each delivered notification, so it must be fast if the token is not listed.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: the list.
    func forget(_ token: DeviceToken, in list: TokenScope)
}
