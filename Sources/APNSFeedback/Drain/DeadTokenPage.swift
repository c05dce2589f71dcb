// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import NIOConcurrencyHelpers

/// Dead tokens of one topic and environment, each with the time of its removal.
///
/// ``FeedbackClient/drain(_:)`` passes them to its closure page by page. The tokens are read from a file of the spool
/// at the first access, and are then in memory. Use a page only until the closure returns, when it is removed from the
/// spool.
public struct DeadTokenPage: RandomAccessCollection, Sendable {
    /// The topic and environment of the tokens.
    public let scope: TokenScope
    /// When this machine first received the tokens.
    public let firstSeen: Timestamp
    /// Whether some of these tokens may have been delivered before: an earlier drain left them in the spool, because
    /// its process ended or because the closure threw an error, or they follow an error within this drain.
    public let isPossibleDuplicate: Bool

    private let start: SpoolCursor
    private let tokenCountMax: Int
    private let read = NIOLockedValueBox(Read())

    /// What was read of the file.
    private struct Read {
        var tokens: [FeedbackTuple]?
        /// The position after the last token.
        var end: SpoolCursor?
    }

    /// Creates a page of the next tokens of a segment.
    init(_ start: SpoolCursor, tokenCountMax: Int, firstSeen: Int64, isPossibleDuplicate: Bool) {
        self.scope = start.scope
        self.firstSeen = Timestamp(secondsSince1970: firstSeen)
        self.isPossibleDuplicate = isPossibleDuplicate
        self.start = start
        self.tokenCountMax = tokenCountMax
    }

    /// The tokens in memory, read once so that all traversals agree.
    private var tokens: [FeedbackTuple] {
        if let tokens = self.read.withLockedValue(\.tokens) { return tokens }
        let tokens = Array(self.stream)
        return self.read.withLockedValue { read in
            read.tokens = read.tokens ?? tokens
            return read.tokens ?? tokens
        }
    }

    /// The position of the first token.
    public var startIndex: Int { 0 }

    /// The number of tokens.
    public var endIndex: Int { self.tokens.endIndex }

    /// A token, with the time since when it is dead, which is never later than the time it was read.
    ///
    /// - Parameter position: from 0 to the number of tokens minus 1.
    public subscript(position: Int) -> FeedbackTuple { self.tokens[position] }

    /// The tokens in the order of the service's list.
    public func makeIterator() -> IndexingIterator<[FeedbackTuple]> { self.tokens.makeIterator() }

    /// The tokens, read from the file during each iteration, so that a page of any length needs little memory.
    package var stream: Stream { Stream(page: self) }

    /// The position after the last token, where the next page begins.
    var end: SpoolCursor {
        // Usually the closure has iterated to the end.
        if let end = self.read.withLockedValue(\.end) { return end }
        var iterator = self.stream.makeIterator()
        while iterator.next() != nil {}
        return iterator.cursor
    }

    /// The tokens of a page, read from the file.
    package struct Stream: Sequence, Sendable {
        fileprivate let page: DeadTokenPage

        package func makeIterator() -> Iterator { Iterator(self.page) }

        /// Reads the tokens of a page.
        package struct Iterator: IteratorProtocol {
            private let page: DeadTokenPage
            private var remainingCount: Int
            fileprivate private(set) var cursor: SpoolCursor

            fileprivate init(_ page: DeadTokenPage) {
                self.page = page
                self.remainingCount = page.tokenCountMax
                self.cursor = page.start
            }

            /// The next token.
            package mutating func next() -> FeedbackTuple? {
                guard self.remainingCount > 0, let tuple = self.cursor.next() else {
                    self.page.read.withLockedValue { [cursor = self.cursor] read in read.end = cursor }
                    return nil
                }
                self.remainingCount -= 1
                return tuple
            }
        }
    }
}

extension DeadTokenPage: CustomStringConvertible, CustomReflectable {
    /// The scope of the tokens; the tokens themselves are private data.
    public var description: String {
        "dead tokens of \(self.scope)\(self.isPossibleDuplicate ? ", possibly repeated" : "")"
    }

    /// Contains nothing of the tokens.
    public var customMirror: Mirror {
        Mirror(self, children: ["scope": self.scope, "possibleDuplicate": self.isPossibleDuplicate])
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
