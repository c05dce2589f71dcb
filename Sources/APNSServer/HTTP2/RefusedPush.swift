// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore
public import OpenSSLTLS

/// A rejected request.
///
/// - SeeAlso: ``PushService/refused(_:)``.
public struct RefusedPush: Sendable {
    /// The maximum number of characters kept of the device token's part of the path, more than the longest valid one
    /// has.
    public static let tokenTextCountMax = 256

    /// The number of the connection at its listener, from 1.
    public var connectionNumber: UInt64
    /// The number of the request on its connection, from 1.
    public var number: UInt64
    /// When the request was complete.
    package let receivedAt: NIODeadline
    /// All headers of the request.
    public var headers: PushHeaders
    /// The device token's part of the path, possibly empty; at most ``tokenTextCountMax`` characters.
    public var tokenText: String
    /// The topic of the header, otherwise of the certificate; `nil` if neither has one.
    public var topic: String?
    /// The payload, or the beginning of one that is too long.
    public var payload: ByteBuffer
    /// The number of bytes of the whole payload.
    public var payloadByteCount: Int
    /// The identifier in the response (`apns-id`).
    public var apnsID: String?
    /// The response to the client.
    public var rejection: PushRejection
    /// An explanation without private data; `nil` if the service gave none.
    public var detail: String?
    /// The format of the signature of the provider token; `nil` if none was verified.
    public var tokenSignature: ES256SignatureFormat?
}

extension RefusedPush: CustomStringConvertible, CustomReflectable {
    /// The identifier, the response and a length, since token and payload are private data.
    public var description: String {
        "request \(self.apnsID ?? "without identifier") with a payload of \(self.payloadByteCount) bytes: "
            + "\(self.rejection.status) \(self.rejection.reason)"
    }

    /// Without token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number]) }
}

/// Why the checks reject a request.
struct PushRefusal: Error, Equatable {
    /// The reason in the response.
    var reason: PushReason
    /// An explanation for the record and the log, without private data.
    var detail: String

    init(_ reason: PushReason, _ detail: String) {
        self.reason = reason
        self.detail = detail
    }
}
