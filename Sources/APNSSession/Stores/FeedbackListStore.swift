// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Stores the dead tokens that a bridge learns of, and provides them to the feedback service page by page.
public protocol FeedbackListStore: FeedbackRecorder {
    /// Reads the next page of a list.
    ///
    /// It is called on event loops, which it must not block.
    ///
    /// - Parameters:
    ///   - list: the list.
    ///   - index: the end of the previous page; 0 for the first.
    ///   - countMin: the minimum number of tokens; a page may have a few more, and fewer only at the end of the list.
    /// - Returns: the page; without tokens at the end of the list.
    func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage

    /// Removes tokens that a provider has received, unless their time has changed since.
    ///
    /// - Parameters:
    ///   - tokens: parts of pages.
    ///   - list: the list.
    func acknowledge(_ tokens: [FeedbackPage.Bucket], in list: TokenScope)
}

/// A page of tokens of a list.
public struct FeedbackPage: Sendable {
    /// Tokens, each with the time of its removal in seconds since 1970.
    public typealias Bucket = [DeviceToken: UInt32]

    /// The tokens in parts, whose memory is shared with the store until either changes it.
    public var buckets: [Bucket]
    /// Where the next page begins.
    public var nextIndex: Int

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - buckets: the tokens in parts.
    ///   - nextIndex: where the next page begins.
    public init(buckets: [Bucket] = [], nextIndex: Int) {
        self.buckets = buckets
        self.nextIndex = nextIndex
    }
}

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
