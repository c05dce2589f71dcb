// SPDX-License-Identifier: Apache-2.0

public import APNSWire

extension PushClientProtocol {
    /// Sends notifications with identifiers of the caller, such as those of an array.
    ///
    /// It behaves like the method for asynchronous sequences.
    ///
    /// - Parameters:
    ///   - rows: identifiers and notifications.
    ///   - filter: the notifications that get records; by default all.
    /// - Returns: the outcome of each, in the order in which they are verified.
    public func send<Rows: Sequence & Sendable, ID: Sendable>(
        _ rows: Rows,
        only filter: DeliveryFilter = .all
    ) -> DeliveryRecords<AsynchronousRows<Rows>, ID> where Rows.Element == (id: ID, notification: PushNotification) {
        self.send(AsynchronousRows(rows), only: filter)
    }
}

/// The elements of a sequence as an asynchronous sequence.
public struct AsynchronousRows<Rows: Sequence & Sendable>: AsyncSequence, Sendable {
    /// The elements of the sequence.
    public typealias Element = Rows.Element

    @usableFromInline let rows: Rows

    init(_ rows: Rows) { self.rows = rows }

    /// Starts the iteration.
    @inlinable
    public func makeAsyncIterator() -> Iterator { Iterator(self.rows.makeIterator()) }

    /// An iterator over the elements.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline var rows: Rows.Iterator

        @inlinable
        init(_ rows: Rows.Iterator) { self.rows = rows }

        /// The next element; `nil` after the last one.
        @inlinable
        public mutating func next() async -> Rows.Element? { self.rows.next() }
    }
}
