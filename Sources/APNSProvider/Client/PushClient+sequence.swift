// SPDX-License-Identifier: Apache-2.0

public import APNSWire

extension PushClient {
    /// Sends notifications that have identifiers of the caller's own, such as those of an array.
    ///
    /// What is said of an asynchronous sequence holds for this one.
    ///
    /// - Parameters:
    ///   - rows: identifiers and notifications.
    ///   - filter: of which notifications there are records; by default of each.
    /// - Returns: what became of each, in the order in which that was proved.
    public func send<Rows: Sequence & Sendable, ID: Sendable>(
        _ rows: Rows,
        only filter: DeliveryFilter = .all
    ) -> DeliveryRecords<AsynchronousRows<Rows>, ID> where Rows.Element == (id: ID, notification: PushNotification) {
        self.send(AsynchronousRows(rows), only: filter)
    }
}

/// The elements of a sequence, one by one.
public struct AsynchronousRows<Rows: Sequence & Sendable>: AsyncSequence, Sendable {
    /// What the sequence has.
    public typealias Element = Rows.Element

    @usableFromInline let rows: Rows

    init(_ rows: Rows) { self.rows = rows }

    /// Begins with the first element.
    @inlinable
    public func makeAsyncIterator() -> Iterator { Iterator(self.rows.makeIterator()) }

    /// Gives the elements.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline var rows: Rows.Iterator

        @inlinable
        init(_ rows: Rows.Iterator) { self.rows = rows }

        /// The next element; `nil` behind the last one.
        @inlinable
        public mutating func next() async -> Rows.Element? { self.rows.next() }
    }
}
