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
    /// Which service, "production" or "sandbox".
    public var environment: String

    /// Names a list.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - environment: "production" or "sandbox".
    public init(topic: String, environment: String) {
        self.topic = topic
        self.environment = environment
    }
}

/// Keeps the lists of dead tokens, and hands them to the feedback service page by page.
public protocol FeedbackListStore: FeedbackRecorder {
    /// Reads on in a list: the tokens with the time since when each is dead.
    ///
    /// What is recorded or taken off between two pages may be missing or be there.
    ///
    /// - Parameters:
    ///   - list: whose list.
    ///   - index: where the last page ended; 0 at first.
    ///   - countMin: at how many tokens the page ends.
    /// - Returns: so many tokens or a few more, fewer only at the end; none at the end of the list.
    func page(of list: FeedbackListName, from index: Int, countMin: Int) -> FeedbackListPage

    /// Takes tokens that were delivered off a list, where their time is still the one that was delivered.
    ///
    /// - Parameters:
    ///   - tokens: the tokens with their times, as they were read.
    ///   - list: whose list.
    func acknowledge(_ tokens: [[DeviceToken: UInt32]], in list: FeedbackListName)
}

/// Tokens of a list that were read together, with the time since when each is dead.
public struct FeedbackListPage: Sendable {
    /// The tokens, in parts that share their memory with the list as long as it does not change them.
    public var buckets: [[DeviceToken: UInt32]] = []
    /// Where the next page begins.
    public var nextIndex: Int

    /// Makes a page without tokens.
    ///
    /// - Parameter nextIndex: where the next page begins.
    public init(nextIndex: Int) { self.nextIndex = nextIndex }
}
