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
    func record(_ tuple: FeedbackTuple, in list: FeedbackListName, onKept: @escaping @Sendable () -> Void)

    /// Takes a token off the list, since a notification for it was delivered.
    ///
    /// Called for each notification that is delivered, and has to be quick where the token is not listed.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: whose list.
    func forget(_ token: DeviceToken, in list: FeedbackListName)
}

/// Which of the lists of dead tokens: that of an app at one of the two services.
public struct FeedbackListName: Hashable, Sendable {
    /// The app.
    public var topic: String
    /// Which of the two services.
    public var environment: Environment

    /// Names a list.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - environment: which of the two services.
    public init(topic: String, environment: Environment) {
        self.topic = topic
        self.environment = environment
    }
}
