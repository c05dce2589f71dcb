// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// A notification for one device, as the HTTP/2 provider API takes it.
///
/// - SeeAlso: "Sending notification requests to APNs".
public struct PushRequest: Sendable {
    /// The name of the request, the same on every attempt; by default a random one.
    public var identifier: PushIdentifier

    /// Whom it is for.
    public var token: DeviceToken

    /// The JSON text in UTF-8.
    public var payload: ByteBuffer

    /// The app with the suffix of the push type; `nil`, the default, leaves the choice to the certificate, which must
    /// then be for one topic only.
    public var topic: String?

    /// What kind of notification it is; `PushType.alert` by default, `nil` leaves the header out.
    public var pushType: PushType?

    /// 10: at once; 5: as suits the device's battery; 1: battery first; `nil`, the default, means 10.
    public var priority: UInt8?

    /// Until when the service keeps it for a device that is away; by default as long as it keeps any.
    public var expiry = PushExpiry.none

    /// Notifications with the same one replace each other on the device; at most 64 bytes; `nil` by default.
    public var collapseIdentifier: String?

    /// Makes a request.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - payload: JSON text in UTF-8.
    ///   - topic: the app with the suffix of the push type.
    ///   - pushType: what kind of notification it is.
    ///   - identifier: the name of the request.
    public init(
        token: DeviceToken,
        payload: ByteBuffer,
        topic: String? = nil,
        pushType: PushType? = .alert,
        identifier: PushIdentifier = PushIdentifier()
    ) {
        self.token = token
        self.payload = payload
        self.topic = topic
        self.pushType = pushType
        self.identifier = identifier
    }

    /// The most bytes of ``collapseIdentifier``.
    public static let collapseIdentifierByteCountMax = 64

    /// What is wrong with it before it is sent.
    func problem(payloadByteCountMax: Int) -> DeliveryOutcome.InvalidReason? {
        let count = self.payload.readableBytes
        guard count > 0 else { return .payloadEmpty }
        guard count <= payloadByteCountMax else {
            return .payloadTooLong(byteCount: count, limit: payloadByteCountMax)
        }
        if let collapse = self.collapseIdentifier {
            guard collapse.utf8.count <= Self.collapseIdentifierByteCountMax, Self.isFieldValue(collapse) else {
                return .collapseIdentifier
            }
        }
        if let topic = self.topic, !Self.isFieldValue(topic) { return .topic }
        if let type = self.pushType, !Self.isFieldValue(type.rawValue) { return .pushType }
        return nil
    }

    /// The most bytes of a header's value: all headers must fit one frame.
    private static let fieldByteCountMax = 1024

    /// Whether a text may stand in a header: visible ASCII, no line ends to smuggle another header in.
    static func isFieldValue(_ text: String) -> Bool {
        (1...Self.fieldByteCountMax).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x21 && $0 <= 0x7E }
    }
}

extension PushRequest: CustomStringConvertible, CustomReflectable {
    /// Its name and lengths; token and payload are private data.
    public var description: String {
        "request \(self.identifier) for a \(self.token) with a payload of \(self.payload.readableBytes) bytes"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["identifier": self.identifier]) }
}
