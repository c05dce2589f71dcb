// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import NIOConcurrencyHelpers

/// Dead tokens of one topic and environment, with the times of their failures.
///
/// The tokens are read from the spool while they are iterated over, so that a page of any length needs little memory.
/// Iterating reads a file, which belongs on a thread that may block. It may be done any number of times until
/// ``DeadTokenSink/take(_:)`` returns.
public struct DeadTokenPage: Sequence, Sendable {
    /// The topic and environment of the tokens.
    public let scope: TokenScope
    /// When this machine first heard of the tokens, in seconds since 1970.
    public let firstSeen: Int64

    private let start: SpoolCursor
    private let tokenCountMax: Int
    private let last = NIOLockedValueBox<SpoolCursor?>(nil)

    /// A page of the next tokens of a segment.
    init(_ start: SpoolCursor, tokenCountMax: Int, firstSeen: Int64) {
        self.scope = start.scope
        self.firstSeen = firstSeen
        self.start = start
        self.tokenCountMax = Swift.max(1, tokenCountMax)
    }

    /// The tokens, none with a time later than that of reading it.
    public func makeIterator() -> Iterator { Iterator(self) }

    /// The position behind the last token, where the next page begins.
    var end: SpoolCursor {
        // Usually the sink has iterated to the end.
        if let end = self.last.withLockedValue({ $0 }) { return end }
        var iterator = self.makeIterator()
        while iterator.next() != nil {}
        return iterator.cursor
    }

    /// Reads the tokens of a page.
    public struct Iterator: IteratorProtocol {
        private let page: DeadTokenPage
        private var leftCount: Int
        fileprivate private(set) var cursor: SpoolCursor

        fileprivate init(_ page: DeadTokenPage) {
            self.page = page
            self.leftCount = page.tokenCountMax
            self.cursor = page.start
        }

        /// Reads the next token, with the time since when it is dead.
        public mutating func next() -> FeedbackTuple? {
            guard self.leftCount > 0, let tuple = self.cursor.next() else {
                self.page.last.withLockedValue { [cursor = self.cursor] last in last = cursor }
                return nil
            }
            self.leftCount -= 1
            return tuple
        }
    }
}
