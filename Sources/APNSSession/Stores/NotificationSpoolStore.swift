// SPDX-License-Identifier: Apache-2.0

package import APNSWire
package import NIOCore

/// A notification of the binary protocol that a gateway stores until the service has an answer for it.
package struct SpooledNotification: Hashable, Sendable {
    /// Its number; later notifications have greater numbers.
    package var id: Int64
    package var token: DeviceToken
    package var payload: ByteBuffer
    /// The expiry that the provider wrote: seconds since 1970 (UTC), 0 for no storage, `nil` for none.
    package var expiry: UInt32?
    package var priority: UInt8?
    /// The provider's identifier; `nil` with command 0.
    package var identifier: UInt32?
    /// The topic of the provider's connection.
    package var topic: String
    /// The `apns-id` of all attempts.
    package var apnsID: PushIdentifier
    /// When it arrived, in seconds since 1970 (UTC).
    package var arrivedAt: Int64
    /// Whether the service may have it already.
    package var isInDoubt = false

    package init(
        id: Int64 = 0,
        token: DeviceToken,
        payload: ByteBuffer,
        expiry: UInt32?,
        priority: UInt8?,
        identifier: UInt32? = nil,
        topic: String,
        apnsID: PushIdentifier,
        arrivedAt: Int64
    ) {
        self.id = id
        self.token = token
        self.payload = payload
        self.expiry = expiry
        self.priority = priority
        self.identifier = identifier
        self.topic = topic
        self.apnsID = apnsID
        self.arrivedAt = arrivedAt
    }

    /// What it counts in bytes: its token and payload, and about what is stored in addition.
    package var byteCount: Int { self.token.byteCount + self.payload.readableBytes + Self.overheadByteCount }

    private static let overheadByteCount = 100
}

/// A transaction of a spool.
package struct SpoolWrite: Sendable {
    /// The notifications to add, with consecutive numbers.
    package var added: [SpooledNotification] = []
    /// The numbers of those that have an outcome.
    package var removed: [Int64] = []
    /// The numbers of those that the service may have.
    package var doubted: [Int64] = []
    /// From now on, the notifications up to this number may be sent; `nil` for no change.
    package var sentThrough: Int64?

    package init() {}

    package var isEmpty: Bool {
        self.added.isEmpty && self.removed.isEmpty && self.doubted.isEmpty && self.sentThrough == nil
    }
}

/// What a spool contains when it is opened.
package struct SpoolContents: Hashable, Sendable {
    package var count = 0
    /// The sum of ``SpooledNotification/byteCount``.
    package var byteCount = 0
    /// The number of the last one; 0 if there is none.
    package var lastID: Int64 = 0
    /// How many of them an earlier process may have sent.
    package var inDoubtCount = 0
    /// How many of them cannot be believed.
    package var damagedCount = 0

    package init() {}
}

/// A part of a spool.
package struct SpoolPage: Sendable {
    /// The notifications, in the order of their numbers.
    package var notifications: [SpooledNotification] = []
    /// The numbers of those that cannot be believed.
    package var damaged: [Int64] = []
    /// What these count in bytes.
    package var damagedByteCount = 0
    /// The number of the last one of the page; `nil` if none follows.
    package var lastID: Int64?

    package init() {}
}

/// Stores the notifications of one provider until the service has an answer for them.
///
/// All calls are from one thread at a time, and block it.
package protocol NotificationSpoolStore: Sendable {
    /// What it contains.
    ///
    /// What the process before may have sent is marked in it as in doubt, and nothing counts as sent by this one.
    var contents: SpoolContents { get throws }

    /// Carries out a transaction; when this returns, it is on the disk.
    func write(_ write: SpoolWrite) throws

    /// Reads up to `countMax` notifications behind the one with the number `id`, and the damaged ones among them.
    func page(after id: Int64, countMax: Int) throws -> SpoolPage
}
