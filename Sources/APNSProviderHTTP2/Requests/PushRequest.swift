// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore
import COpenSSL
import NIOConcurrencyHelpers

/// A notification for one device, as a request of the HTTP/2 provider API.
///
/// - SeeAlso: "Sending notification requests to APNs".
public struct PushRequest: Sendable {
    /// The identifier of the request, the same on every attempt; by default a random one.
    public var apnsID: PushIdentifier

    /// The recipient.
    public var token: DeviceToken

    /// The JSON text in UTF-8.
    public var payload: ByteBuffer

    /// The app with the suffix of the push type; with `nil`, the default, the certificate determines the topic, so it
    /// must be for one topic only.
    public var topic: String?

    /// The type of the notification; `PushType.alert` by default, `nil` omits the header.
    public var pushType: PushType?

    /// 10: immediately; 5: at a time that saves the device's battery; 1: when the battery is least affected; `nil`, the
    /// default, means 10.
    public var priority: UInt8?

    /// How long the service stores it for a device that is offline; by default as long as it stores any.
    public var expiry = PushExpiry.none

    /// Notifications with the same value replace each other on the device; at most 64 bytes; `nil` by default.
    public var collapseID: String?

    /// What a request about broadcast channels has instead of ``token`` and ``topic``; `nil` for a device.
    var channel: ChannelFields?

    /// Why no request could be derived from the notification; `nil` if it could.
    var fault: DeliveryOutcome.InvalidReason?

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text in UTF-8.
    ///   - topic: the app with the suffix of the push type.
    ///   - pushType: the type of the notification.
    ///   - apnsID: the identifier of the request.
    public init(
        token: DeviceToken,
        payload: ByteBuffer,
        topic: String? = nil,
        pushType: PushType? = .alert,
        apnsID: PushIdentifier = PushIdentifier()
    ) {
        self.token = token
        self.payload = payload
        self.topic = topic
        self.pushType = pushType
        self.apnsID = apnsID
    }

    /// Creates a request about broadcast channels; with `nil`, its identifier is a random one.
    init(_ channel: ChannelFields, body: ByteBuffer, id: PushIdentifier?) {
        self.init(token: Self.noToken, payload: body, pushType: .liveActivity, apnsID: id ?? PushIdentifier())
        self.channel = channel
    }

    /// The token of a request about channels, which is never sent.
    private static let noToken: DeviceToken = {
        guard let token = try? DeviceToken(bytes: CollectionOfOne(0)) else {
            preconditionFailure("One byte is a token.")
        }
        return token
    }()

    /// The maximum length of ``collapseID``, in bytes.
    public static let collapseIDByteCountMax = 64

    /// The problem of the request, checked before it is sent.
    func problem(payloadByteCountMax: Int) -> DeliveryOutcome.InvalidReason? {
        if let problem = self.payload.lengthProblem(limit: payloadByteCountMax) ?? self.fault { return problem }
        if let collapse = self.collapseID {
            guard collapse.utf8.count <= Self.collapseIDByteCountMax, Self.isFieldValue(collapse) else {
                return .collapseID
            }
        }
        if let topic = self.topic, !Self.isFieldValue(topic) { return .topic }
        if let type = self.pushType, !Self.isFieldValue(type.rawValue) { return .pushType }
        return nil
    }

    /// The maximum length of a header's value, in bytes: all headers must fit into one frame.
    private static let fieldByteCountMax = 1024

    /// Whether a text is a valid header value: visible ASCII, without line ends that could inject another header.
    static func isFieldValue(_ text: String) -> Bool {
        let bytes = text.utf8Span.span
        guard (1...Self.fieldByteCountMax).contains(bytes.count) else { return false }
        return bytes.indices.allSatisfy { bytes[$0] >= 0x21 && bytes[$0] <= 0x7E }
    }
}

extension PushRequest: CustomStringConvertible, CustomReflectable {
    /// Its identifier and lengths; the token and payload are private data.
    public var description: String {
        "request \(self.apnsID) for a \(self.token) with a payload of \(self.payload.readableBytes) bytes"
    }

    /// Contains nothing of the token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["identifier": self.apnsID]) }
}

extension PushIdentifier {
    /// A buffer of random numbers: a system call for each would be a large part of the cost of a request.
    private struct Pool {
        private var numbers: [UInt64] = []

        private static let numberCount = 512

        mutating func next() -> UInt64 {
            if let number = self.numbers.popLast() { return number }
            var numbers = [UInt64](repeating: 0, count: Self.numberCount)
            let result = unsafe numbers.withUnsafeMutableBytes { bytes in
                unsafe RAND_bytes(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(bytes.count))
            }
            guard result == 1 else { return .random(in: 0 ... .max) }
            self.numbers = numbers
            return self.numbers.removeLast()
        }
    }

    private static let pool = NIOLockedValueBox(Pool())

    /// Creates a random identifier (version 4).
    public init() {
        let (high, low) = Self.pool.withLockedValue { ($0.next(), $0.next()) }
        self.init(high: high, low: low)
    }
}
