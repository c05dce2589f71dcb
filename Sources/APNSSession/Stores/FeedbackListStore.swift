// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Keeps what a bridge learns of dead tokens, and gives it to the feedback service page by page.
public protocol FeedbackListStore: FeedbackRecorder {
    /// Reads a list on: so many tokens or a few more, fewer only at the end.
    ///
    /// Called on event loops, which it must not block.
    ///
    /// - Parameters:
    ///   - list: which list.
    ///   - index: where the page before ended; 0 at first.
    ///   - countMin: at how many tokens the page ends.
    /// - Returns: the page; without tokens at the end of the list.
    func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage

    /// Takes tokens off a list that a provider has received, unless their time changed since.
    ///
    /// - Parameters:
    ///   - tokens: parts of pages.
    ///   - list: which list.
    func acknowledge(_ tokens: [FeedbackPage.Bucket], in list: TokenScope)
}

/// Tokens of a list that are read at a time.
public struct FeedbackPage: Sendable {
    /// Tokens, and since when each is dead, in seconds since 1970.
    public typealias Bucket = [DeviceToken: UInt32]

    /// The tokens in parts, whose memory the store shares as long as it does not change them.
    public var buckets: [Bucket]
    /// Where the next page begins.
    public var nextIndex: Int

    /// Makes a page.
    ///
    /// - Parameters:
    ///   - buckets: the tokens in parts.
    ///   - nextIndex: where the next page begins.
    public init(buckets: [Bucket] = [], nextIndex: Int) {
        self.buckets = buckets
        self.nextIndex = nextIndex
    }
}
