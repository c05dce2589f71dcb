// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// Notifications that lie one behind the other in the record, of which the oldest go first.
struct NotificationSegment: Sendable {
    private enum Content {
        /// The messages, and how many of the first are gone.
        case messages(MessageBatch)
        indirect case single(ReceivedNotification)
    }

    private var content: Content
    /// The number that the first one had, be it there or gone.
    private let originalNumber: UInt64
    /// The number of the first one that is there.
    private(set) var firstNumber: UInt64
    /// How many are there.
    private(set) var count: Int
    /// About how many bytes of memory it takes.
    private(set) var byteCount: Int

    init(_ notification: ReceivedNotification) {
        self.content = .single(notification)
        self.originalNumber = notification.number
        self.firstNumber = notification.number
        self.count = 1
        self.byteCount = notification.byteCount
    }

    init(_ messages: MessageBatch, firstNumber: UInt64) {
        self.content = .messages(messages)
        self.originalNumber = firstNumber
        self.firstNumber = firstNumber
        self.count = messages.messages.count
        self.byteCount = messages.byteCount
    }

    /// The numbers of those that are there; there is at least one.
    var numbers: ClosedRange<UInt64> { self.firstNumber...(self.firstNumber + UInt64(self.count) - 1) }

    /// Lets the oldest go.
    ///
    /// - Parameter count: how many, but not all.
    mutating func removeFirst(_ count: Int) {
        // The memory is there until the last has gone; what is counted is its share.
        self.byteCount -= self.byteCount / self.count * count
        self.firstNumber += UInt64(count)
        self.count -= count
    }

    private func index(_ number: UInt64) -> Int { Int(number - self.originalNumber) }

    /// The one with a number that is there.
    func notification(_ number: UInt64) -> ReceivedNotification {
        switch self.content {
        case .messages(let messages): messages.notification(self.index(number), number: number)
        case .single(let notification): notification
        }
    }

    /// The token of a notification that was accepted; `nil` for one that was refused.
    func acceptedToken(_ number: UInt64) -> DeviceToken? {
        switch self.content {
        case .messages(let messages): messages.token(self.index(number))
        case .single(let notification): notification.isAccepted ? notification.token : nil
        }
    }

    /// Notes what became of a notification since; what is in a batch was delivered and stays so.
    mutating func change(_ delivery: ReceivedNotification.Delivery) {
        guard case .single(var notification) = self.content else { return }
        notification.delivery = delivery
        self.content = .single(notification)
    }

    /// Whether any can be meant by a query.
    func mayMatch(_ query: NotificationQuery) -> Bool {
        guard query.numbers.overlaps(self.numbers) else { return false }
        switch self.content {
        case .messages(let messages):
            return query.isRejected != true && (query.listener ?? .binary) == .binary
                && (query.topic == nil || query.topic == messages.source.topic)
        case .single(let notification): return query.matches(notification)
        }
    }

    /// Whether the one with a number is meant by a query that may match.
    func matches(_ query: NotificationQuery, _ number: UInt64) -> Bool {
        guard query.numbers.contains(number) else { return false }
        guard let token = query.token, case .messages(let messages) = self.content else { return true }
        return messages.isForToken(token, self.index(number))
    }

    /// Where those that are there came from.
    var origin: NotificationOrigin {
        switch self.content {
        case .messages(let messages):
            NotificationOrigin(
                listener: .binary,
                connectionNumber: messages.source.connectionNumber,
                firstNotificationNumber: messages.firstNotificationNumber + UInt64(self.index(self.firstNumber)),
                numbers: self.numbers,
                areRejected: false
            )
        case .single(let notification):
            NotificationOrigin(
                listener: notification.listener,
                connectionNumber: notification.connectionNumber,
                firstNotificationNumber: notification.notificationNumber,
                numbers: self.numbers,
                areRejected: !notification.isAccepted
            )
        }
    }
}

/// Where notifications came from that followed one another on a connection.
package struct NotificationOrigin: Sendable {
    /// The listener.
    package var listener: SimulatorListener
    /// The connection at the listener.
    package var connectionNumber: UInt64
    /// The number of the first one on the connection; the others follow.
    package var firstNotificationNumber: UInt64
    /// Their numbers in the record.
    package var numbers: ClosedRange<UInt64>
    /// Whether they were refused.
    package var areRejected: Bool
}

/// Which notifications of the record are meant, as far as that can be told without making a value of each.
package struct NotificationQuery: Hashable, Sendable {
    /// In which order they are looked for.
    package enum Order: String, CaseIterable, Sendable { case oldest, newest }

    /// Whom they are for; `nil` for anyone.
    package var token: DeviceToken?
    /// The app; `nil` for any.
    package var topic: String?
    /// Where they came; `nil` for anywhere.
    package var listener: SimulatorListener?
    /// Whether they were refused; `nil` where that does not matter.
    package var isRejected: Bool?
    /// Their numbers in the record.
    package var numbers: ClosedRange<UInt64> = 0...UInt64.max
    /// Which come first.
    package var order = Order.oldest

    /// All, the oldest first.
    package init() {}

    /// Whether a notification is meant.
    ///
    /// - Parameter notification: one with a number.
    /// - Returns: whether all conditions hold.
    package func matches(_ notification: ReceivedNotification) -> Bool {
        guard self.numbers.contains(notification.number) else { return false }
        if let isRejected = self.isRejected, isRejected == notification.isAccepted { return false }
        if let token = self.token, token != notification.token { return false }
        if let topic = self.topic, topic != notification.topic { return false }
        if let listener = self.listener, listener != notification.listener { return false }
        return true
    }
}
