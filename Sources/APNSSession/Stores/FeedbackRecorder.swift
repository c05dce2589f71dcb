// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Keeps what a bridge learns of dead tokens until the feedback service tells the provider.
public protocol FeedbackRecorder: Sendable {
    /// Keeps a tuple; of several for a token, the newest.
    ///
    /// - Parameters:
    ///   - tuple: the token, and since when it is dead.
    ///   - list: whose list it goes to.
    ///   - onKept: is called once, from any thread, when the tuple is safe, or cannot be kept.
    func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void)

    /// Takes a token off the list, since a notification for it was delivered.
    ///
    /// Called for each notification that is delivered, and has to be quick where the token is not listed.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: whose list.
    func forget(_ token: DeviceToken, in list: TokenScope)
}
