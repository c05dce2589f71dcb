// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A notification that a simulator was sent, and what became of it.
public struct ReceivedNotification: Hashable, Sendable {
    /// What becomes of a notification that is taken.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Delivery: Hashable, Sendable {
        /// Its device got it at this time, in milliseconds since 1970 (UTC).
        case delivered(at: UInt64)
        /// Its device is offline, and the service keeps it until it is back.
        case stored
        /// A newer one of the same app took its place while its device was offline.
        case replaced
        /// It was kept until it expired.
        case expired
        /// Its device was offline, and its expiry let the service keep nothing.
        case discarded
        /// The app is gone from its device.
        case appRemoved
    }

    /// Its number among all that the simulator was sent and has recorded, from 1.
    public internal(set) var number: UInt64 = 0

    /// The listener that it came to: ``SimulatorListener/binary`` or ``SimulatorListener/http2``.
    public var listener: SimulatorListener

    /// The device token that it is for; `nil` where it was refused for having none that can be one.
    public var token: DeviceToken?

    /// The payload, as it came; the begin of it where it was refused for its length.
    public var payload: [UInt8] {
        get { self.payloadRange.map { Array(self.frame[$0]) } ?? self.separatePayload }
        set {
            self.payloadRange = nil
            self.separatePayload = newValue
        }
    }

    /// Where in ``frame`` the payload is; `nil` where it is kept by itself.
    private var payloadRange: Range<Int>?
    private var separatePayload: [UInt8] = []

    /// The number of bytes of the whole payload.
    public internal(set) var payloadByteCount: Int {
        get { (self.payloadRange?.count ?? self.separatePayload.count) + self.missingPayloadByteCount }
        set { self.missingPayloadByteCount = newValue - (self.payloadRange?.count ?? self.separatePayload.count) }
    }

    /// How many bytes of the payload are not kept.
    private var missingPayloadByteCount = 0

    /// The topic of the certificate that sent it, or of the request.
    public var topic: String?

    /// The kind of notification that the request named; `nil` where it named none, and for the binary protocol.
    public var pushType: PushType?

    /// Until when it is to be kept.
    public var expiry = PushExpiry.none

    /// 10, 5, or over HTTP/2 also 1; `nil` where that is not said.
    public var priority: UInt8?

    /// What makes it replace an earlier one; `nil` for nothing, and for the binary protocol.
    public var collapseIdentifier: String?

    /// The identifier that the provider gave it in the binary protocol; `nil` for none, and over HTTP/2.
    public var identifier: UInt32?

    /// The name of the request that brought it (`apns-id`); `nil` for the binary protocol.
    public var requestIdentifier: PushIdentifier?

    /// The number of the connection that it came on at its listener, from 1.
    public var connectionNumber: UInt64

    /// Its number among the notifications of its connection, from 1.
    public var notificationNumber: UInt64

    /// Why it was refused; `nil` where it was taken, and where ``isUnanswered`` says that nothing was told.
    public var rejection: Rejection?

    /// Whether the connection was closed for it without a word, as for bytes that begin with no command.
    public internal(set) var isUnanswered = false

    /// Whether it was taken.
    public var isAccepted: Bool { self.rejection == nil && !self.isUnanswered }

    /// What became of it since; `nil` where it was refused.
    public internal(set) var delivery: Delivery?

    /// The device that has the token; `nil` where nobody has.
    public internal(set) var device: String?

    /// When it came, in milliseconds since 1970 (UTC).
    public internal(set) var timestamp: UInt64 = 0

    /// How long it took from when its last bytes were read until its verdict was given; `nil` where that was not
    /// measured.
    public internal(set) var duration: Duration?

    /// The second name that the sandbox gave it over HTTP/2 (`apns-unique-id`).
    public var uniqueIdentifier: PushIdentifier?

    /// The bytes of the message in the binary protocol, as far as they came; empty over HTTP/2.
    public internal(set) var frame: [UInt8] = []

    /// The format of the message in the binary protocol.
    public var command: Command? { self.frame.first.flatMap { Command(rawValue: $0) } }

    /// The headers of the request over HTTP/2, without credentials; empty for the binary protocol.
    public var headers: [Header] = []

    init(
        listener: SimulatorListener,
        token: DeviceToken?,
        payload: [UInt8],
        connectionNumber: UInt64,
        notificationNumber: UInt64
    ) {
        self.listener = listener
        self.token = token
        self.connectionNumber = connectionNumber
        self.notificationNumber = notificationNumber
        self.separatePayload = payload
    }

    init(
        token: DeviceToken?,
        frame: [UInt8],
        payloadRange: Range<Int>,
        connectionNumber: UInt64,
        notificationNumber: UInt64
    ) {
        self.listener = .binary
        self.token = token
        self.frame = frame
        self.payloadRange = payloadRange
        self.connectionNumber = connectionNumber
        self.notificationNumber = notificationNumber
    }

    /// One header of a request.
    public struct Header: Hashable, Sendable {
        /// Its name in lower case.
        public var name: String
        /// Its value.
        public var value: String

        /// Makes a header.
        ///
        /// - Parameters:
        ///   - name: its name in lower case.
        ///   - value: its value.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Whether the app is gone from its device, so that nobody saw it: the binary gateway takes those as well.
    public var isDead: Bool { self.delivery == .appRemoved }

    /// About how many bytes of memory it takes.
    var byteCount: Int {
        self.headers.reduce(Self.byteCountMin + self.separatePayload.count + self.frame.count) {
            $0 + MemoryLayout<Header>.size + $1.name.utf8.count + $1.value.utf8.count
        }
    }

    /// What it takes without payload, frame and headers: its own, its token's, and its places in the record.
    private static let byteCountMin = 512

    /// The payload as text; what is no UTF-8 in it is replaced.
    public var payloadText: String { String(decoding: self.payload, as: UTF8.self) }
}

extension ReceivedNotification: CustomStringConvertible, CustomReflectable {
    /// Where it came and how long it is; token and payload are private data.
    public var description: String {
        "notification \(self.number): \(self.notificationNumber) of connection \(self.connectionNumber) to "
            + "\(self.listener), for \(self.token.map { "a \($0)" } ?? "no token"), "
            + "with a payload of \(self.payload.count) bytes"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number, "listener": self.listener]) }
}
