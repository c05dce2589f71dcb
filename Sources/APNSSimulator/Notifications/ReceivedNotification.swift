// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import OpenSSLTLS

/// A notification that a simulator received, with its outcome.
public struct ReceivedNotification: Hashable, Sendable {
    /// The delivery of an accepted notification.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Delivery: Hashable, Sendable {
        /// Delivered to the device at this time.
        case delivered(at: Timestamp)
        /// Stored, because the device is offline.
        case stored
        /// Replaced by a newer one of the same app while the device was offline.
        case replaced
        /// Stored until it expired.
        case expired
        /// Not stored, because the device was offline and its expiry forbids storage.
        case discarded
        /// The app was removed from the device.
        case appRemoved
    }

    /// The number in the simulator's record, from 1.
    public internal(set) var number: UInt64 = 0

    /// The listener: ``SimulatorListener/binary`` or ``SimulatorListener/http2``.
    public var listener: SimulatorListener

    /// The device token; `nil` if it was rejected without a valid one.
    public var token: DeviceToken?

    /// The payload as received; the beginning of it if it was rejected for its length.
    public var payload: [UInt8] {
        get { self.payloadRange.map { Array(self.frame[$0]) } ?? self.separatePayload }
        set {
            self.payloadRange = nil
            self.separatePayload = newValue
        }
    }

    /// The range of the payload in ``frame``; `nil` if it is stored separately.
    private var payloadRange: Range<Int>?
    private var separatePayload: [UInt8] = []

    /// Whether the payload, the topic or the digits of the token contain a text.
    func contains(_ text: SearchText) -> Bool {
        let isInPayload = unsafe (self.payloadRange == nil ? self.separatePayload : self.frame).withUnsafeBytes {
            unsafe text.isIn(UnsafeRawBufferPointer(rebasing: $0[self.payloadRange ?? $0.indices]))
        }
        return isInPayload || text.isIn(self.topic)
            || self.token.map { unsafe $0.withUnsafeBytes { unsafe text.isIn(token: $0) } } ?? false
    }

    /// The number of bytes of the whole payload.
    public internal(set) var payloadByteCount: Int {
        get { (self.payloadRange?.count ?? self.separatePayload.count) + self.missingPayloadByteCount }
        set { self.missingPayloadByteCount = newValue - (self.payloadRange?.count ?? self.separatePayload.count) }
    }

    /// How many bytes of the payload are not stored.
    private var missingPayloadByteCount = 0

    /// The topic of the certificate or of the request.
    public var topic: String?

    /// The push type of the request; `nil` if not specified, and for the binary protocol.
    public var pushType: PushType?

    /// The expiry.
    public var expiry = PushExpiry.none

    /// The priority: 10, 5, or over HTTP/2 also 1; `nil` if not specified.
    public var priority: UInt8?

    /// The collapse identifier; `nil` for none, and for the binary protocol.
    public var collapseID: String?

    /// The provider's identifier in the binary protocol; `nil` for none, and over HTTP/2.
    public var identifier: UInt32?

    /// The identifier of the request (`apns-id`); `nil` for the binary protocol.
    public var apnsID: PushIdentifier?

    /// The number of the connection at its listener, from 1.
    public var connectionNumber: UInt64

    /// The number of the notification on its connection, from 1.
    public var notificationNumber: UInt64

    /// The reason of the rejection; `nil` if it was accepted, and if ``isUnanswered`` is `true`.
    public var rejection: Rejection?

    /// Why it was rejected, in words and without private data; `nil` if it was accepted.
    public internal(set) var reasonDetail: String?

    /// The format of the signature of the provider token, if one was verified; `nil` for the binary protocol.
    public internal(set) var tokenSignature: ES256SignatureFormat?

    /// Whether the connection was closed because of it without a response, as for bytes that are not a command.
    public internal(set) var isUnanswered = false

    /// Whether it was accepted.
    public var isAccepted: Bool { self.rejection == nil && !self.isUnanswered }

    /// The delivery; `nil` if it was rejected.
    public internal(set) var delivery: Delivery?

    /// The device with the token; `nil` if it is unknown.
    public internal(set) var device: String?

    /// When it was received.
    public internal(set) var timestamp = Timestamp.unset

    /// The time from reading its last bytes to its outcome; `nil` if it was not measured.
    public internal(set) var duration: Duration?

    /// The `apns-unique-id` that the sandbox adds over HTTP/2.
    public var apnsUniqueID: PushIdentifier?

    /// The received bytes of the message in the binary protocol; empty over HTTP/2.
    public internal(set) var frame: [UInt8] = []

    /// The format of the message in the binary protocol.
    public var command: Command? { self.frame.first.flatMap { Command(rawValue: $0) } }

    /// The headers of the request over HTTP/2, without credentials; empty for the binary protocol.
    public var headers: [Header] = []

    /// Creates a notification, whose payload is in a range of its frame, or separate.
    init(
        listener: SimulatorListener = .binary,
        token: DeviceToken?,
        frame: [UInt8] = [],
        payloadRange: Range<Int>? = nil,
        payload: [UInt8] = [],
        connectionNumber: UInt64,
        notificationNumber: UInt64
    ) {
        self.listener = listener
        self.token = token
        self.frame = frame
        self.payloadRange = payloadRange
        self.separatePayload = payload
        self.connectionNumber = connectionNumber
        self.notificationNumber = notificationNumber
    }

    /// A header of a request.
    public struct Header: Hashable, Sendable {
        /// The name in lower case.
        public var name: String
        /// The value.
        public var value: String

        /// Creates a header.
        ///
        /// - Parameters:
        ///   - name: the name in lower case.
        ///   - value: the value.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Whether the app was removed from its device; the binary gateway accepts such notifications, too.
    public var isDead: Bool { self.delivery == .appRemoved }

    /// The approximate memory usage in bytes.
    var byteCount: Int {
        self.headers.reduce(Self.byteCountMin + self.separatePayload.count + self.frame.count) {
            $0 + MemoryLayout<Header>.size + $1.name.utf8.count + $1.value.utf8.count
        }
    }

    /// The memory usage without payload, frame and headers: the value, its token, and its entries in the record.
    private static let byteCountMin = 512

    /// The payload as text; invalid UTF-8 is replaced.
    public var payloadText: String { String(decoding: self.payload, as: UTF8.self) }
}

extension Timestamp {
    /// The value of a time that is not set yet.
    static let unset = Timestamp(millisecondsSince1970: 0)
}

extension ReceivedNotification: CustomStringConvertible, CustomReflectable {
    /// The origin and lengths, since token and payload are private data.
    public var description: String {
        "notification \(self.number): \(self.notificationNumber) of connection \(self.connectionNumber) to "
            + "\(self.listener), for \(self.token.map { "a \($0)" } ?? "no token"), "
            + "with a payload of \(self.payload.count) bytes"
    }

    /// Without token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number, "listener": self.listener]) }
}
