// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import NIOConcurrencyHelpers

/// Dead tokens of one topic and environment, each with the time of its removal.
///
/// ``FeedbackClient/drain(_:)`` passes them to its closure page by page. The tokens are read from a file of the spool
/// during iteration, so that a page of any length needs little memory. It can be iterated over any number of times
/// until the closure returns; then the page is removed from the spool.
public struct DeadTokenPage: Sequence, Sendable {
    /// The topic and environment of the tokens.
    public let scope: TokenScope
    /// When this machine first received the tokens, in seconds since 1970 (UTC).
    public let firstSeen: Int64
    /// Whether some of these tokens may have been delivered before: an earlier drain left them in the spool, because
    /// its process ended or because the closure threw an error, or they follow an error within this drain.
    public let possibleDuplicate: Bool

    private let start: SpoolCursor
    private let tokenCountMax: Int
    private let last = NIOLockedValueBox<SpoolCursor?>(nil)

    /// Creates a page of the next tokens of a segment.
    init(_ start: SpoolCursor, tokenCountMax: Int, firstSeen: Int64, possibleDuplicate: Bool) {
        self.scope = start.scope
        self.firstSeen = firstSeen
        self.possibleDuplicate = possibleDuplicate
        self.start = start
        self.tokenCountMax = tokenCountMax
    }

    /// The tokens; their times are never later than the time they were read.
    public func makeIterator() -> Iterator { Iterator(self) }

    /// The position after the last token, where the next page begins.
    var end: SpoolCursor {
        // Usually the closure has iterated to the end.
        if let end = self.last.withLockedValue({ $0 }) { return end }
        var iterator = self.makeIterator()
        while iterator.next() != nil {}
        return iterator.cursor
    }

    /// Reads the tokens of a page.
    public struct Iterator: IteratorProtocol {
        private let page: DeadTokenPage
        private var remainingCount: Int
        fileprivate private(set) var cursor: SpoolCursor

        fileprivate init(_ page: DeadTokenPage) {
            self.page = page
            self.remainingCount = page.tokenCountMax
            self.cursor = page.start
        }

        /// The next token, with the time since when it is dead.
        public mutating func next() -> FeedbackTuple? {
            guard self.remainingCount > 0, let tuple = self.cursor.next() else {
                self.page.last.withLockedValue { [cursor = self.cursor] last in last = cursor }
                return nil
            }
            self.remainingCount -= 1
            return tuple
        }
    }
}

extension DeadTokenPage: CustomStringConvertible, CustomReflectable {
    /// The scope of the tokens; the tokens themselves are private data.
    public var description: String {
        "dead tokens of \(self.scope)\(self.possibleDuplicate ? ", possibly repeated" : "")"
    }

    /// Contains nothing of the tokens.
    public var customMirror: Mirror {
        Mirror(self, children: ["scope": self.scope, "possibleDuplicate": self.possibleDuplicate])
    }
}

/// The receiver of the pages of a drain: the caller's closure.
struct PageConsumer: Sendable {
    typealias Body = @Sendable (_ page: DeadTokenPage) async throws -> Void

    /// The maximum number of tokens of a page.
    let tokenCountMax: Int
    private let body: Body

    init(tokenCountMax: Int, _ body: @escaping Body) {
        self.tokenCountMax = max(1, tokenCountMax)
        self.body = body
    }

    /// Delivers a page, and distinguishes its errors from those of the spool and the connection.
    func deliver(_ page: DeadTokenPage) async throws(FeedbackError) {
        do { try await self.body(page) } catch { throw .notDelivered(underlying: error) }
    }
}
