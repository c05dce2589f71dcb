// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// Consecutive notifications of the record, which are removed from the front.
struct NotificationSegment: Sendable {
    private enum Content {
        /// Messages, including those already removed from the front.
        case messages(MessageBatch)
        /// Behind a reference, so that a search reads single properties.
        case single(Single)
    }

    private final class Single: Sendable {
        let notification: ReceivedNotification

        init(_ notification: ReceivedNotification) { self.notification = notification }
    }

    private var content: Content
    /// The number of the original first notification.
    private let originalNumber: UInt64
    /// The number of the first remaining notification.
    private(set) var firstNumber: UInt64
    /// The number of remaining notifications.
    private(set) var count: Int
    /// The approximate memory usage in bytes.
    private(set) var byteCount: Int

    init(_ notification: ReceivedNotification) {
        self.content = .single(Single(notification))
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

    /// The numbers of the remaining notifications, at least one.
    var numbers: ClosedRange<UInt64> { self.firstNumber...(self.firstNumber + UInt64(self.count) - 1) }

    /// Removes the oldest notifications.
    mutating func removeFirst(_ count: Int) {
        // The memory is released with the last one; the accounting is proportional.
        self.byteCount -= self.byteCount / self.count * count
        self.firstNumber += UInt64(count)
        self.count -= count
    }

    private func index(_ number: UInt64) -> Int { Int(number - self.originalNumber) }

    /// Returns the remaining notification with a number.
    func notification(_ number: UInt64) -> ReceivedNotification {
        switch self.content {
        case .messages(let messages): messages.notification(self.index(number), number: number)
        case .single(let single): single.notification
        }
    }

    /// Returns the token of an accepted notification; `nil` for a rejected one.
    func acceptedToken(_ number: UInt64) -> DeviceToken? {
        switch self.content {
        case .messages(let messages): messages.token(self.index(number))
        case .single(let single): single.notification.isAccepted ? single.notification.token : nil
        }
    }

    /// Visits the keys of the tokens, in order; 0 if there is no token.
    func visitTokenKeys(_ body: (UInt32) -> Void) {
        switch self.content {
        case .messages(let messages): for message in messages.messages { body(message.tokenKey) }
        case .single(let single): body(single.notification.token?.recordKey ?? 0)
        }
    }

    /// Updates the delivery of a notification; messages of a batch were delivered and stay so.
    mutating func change(_ delivery: ReceivedNotification.Delivery) {
        guard case .single(let single) = self.content else { return }
        var notification = single.notification
        notification.delivery = delivery
        self.content = .single(Single(notification))
    }

    /// Whether any notification can match a query.
    func mayMatch(_ query: NotificationQuery) -> Bool {
        guard query.numbers.overlaps(self.numbers) else { return false }
        switch self.content {
        case .messages(let messages):
            return query.isRejected != true && (query.listener ?? .binary) == .binary
                && (query.topic == nil || query.topic == messages.source.topic)
        case .single(let single): return query.matches(single.notification)
        }
    }

    /// Whether the notification with a number matches a query, given that some can.
    func matches(_ query: NotificationQuery, _ number: UInt64) -> Bool {
        guard query.numbers.contains(number) else { return false }
        guard case .messages(let messages) = self.content else { return true }
        return query.token.map { messages.isForToken($0, self.index(number)) } ?? true
            && query.text.map { messages.contains($0, self.index(number)) } ?? true
    }

    /// The origins of the remaining notifications.
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
        case .single(let single):
            NotificationOrigin(
                listener: single.notification.listener,
                connectionNumber: single.notification.connectionNumber,
                firstNotificationNumber: single.notification.notificationNumber,
                numbers: self.numbers,
                areRejected: !single.notification.isAccepted
            )
        }
    }
}

/// The origin of consecutive notifications of a connection.
package struct NotificationOrigin: Sendable {
    /// The listener.
    package var listener: SimulatorListener
    /// The number of the connection at the listener.
    package var connectionNumber: UInt64
    /// The number of the first notification on the connection; the others follow.
    package var firstNotificationNumber: UInt64
    /// The numbers in the record.
    package var numbers: ClosedRange<UInt64>
    /// Whether they were rejected.
    package var areRejected: Bool
}

/// A query for notifications of the record, by properties that can be checked without creating notifications.
package struct NotificationQuery: Hashable, Sendable {
    /// The order of the search.
    package enum Order: String, CaseIterable, Sendable { case oldest, newest }

    /// The device token; `nil` for any.
    package var token: DeviceToken?
    /// The topic; `nil` for any.
    package var topic: String?
    /// The listener; `nil` for any.
    package var listener: SimulatorListener?
    /// Whether they were rejected; `nil` for both.
    package var isRejected: Bool?
    /// The numbers in the record.
    package var numbers: ClosedRange<UInt64> = 0...UInt64.max
    /// A text in the payload, the topic or the token; `nil` for any.
    package var text: SearchText?
    /// The order of the results.
    package var order = Order.oldest

    /// Matches all notifications, the oldest first.
    package init() {}

    /// Whether a notification matches.
    package func matches(_ notification: ReceivedNotification) -> Bool {
        guard self.numbers.contains(notification.number) else { return false }
        if let isRejected = self.isRejected, isRejected == notification.isAccepted { return false }
        if let token = self.token, token != notification.token { return false }
        if let topic = self.topic, topic != notification.topic { return false }
        if let listener = self.listener, listener != notification.listener { return false }
        return self.text.map(notification.contains) ?? true
    }
}
