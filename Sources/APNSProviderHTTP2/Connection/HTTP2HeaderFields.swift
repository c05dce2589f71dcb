// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The header fields of one request: their names, and their values in one buffer.
///
/// One instance is reused for all requests of a connection. Most requests differ from the previous one only in their
/// path and identifier, which are overwritten.
struct HTTP2HeaderFields {
    /// A field whose value is a slice of ``values``.
    struct Field {
        var name: StaticString
        var value: Range<Int>
        /// Whether the service may store it in its HPACK table; tokens and secrets are never indexed.
        var isIndexed: Bool
    }

    private(set) var fields: [Field] = []
    private(set) var values: [UInt8] = []

    // The positions of the path and the identifier.
    private let pathField: Int
    private let pathStart: Int
    private let identifierField: Int
    private let identifierStart: Int
    // The end of the fields common to all requests.
    private let commonFieldCount: Int
    private let commonByteCount: Int
    // The fields shared with the previous requests, and their end.
    private var topic: String?
    private var pushType: PushType?
    private var priority: UInt8?
    private var seldomFieldCount: Int
    private var seldomByteCount: Int
    // The service's table contains the name of each of these after its first use.
    private var hasIdentifier = false
    private var hasExpiration = false
    private var hasCollapseIdentifier = false

    private static let pathPrefix = Array("/3/device/".utf8)

    /// Creates the fields common to all requests to a service.
    init(authority: String) {
        var fields: [Field] = []
        var values: [UInt8] = []
        func append(_ name: StaticString, _ value: [UInt8], isIndexed: Bool) {
            fields.append(Field(name: name, value: values.count..<(values.count + value.count), isIndexed: isIndexed))
            values += value
        }
        append(":method", Array("POST".utf8), isIndexed: true)
        append(":scheme", Array("https".utf8), isIndexed: true)
        append(":authority", Array(authority.utf8), isIndexed: true)
        self.pathField = fields.count
        self.pathStart = values.count
        // Room for the longest token.
        let digits = [UInt8](repeating: 0, count: 2 * WireLimits.tokenByteCountMax)
        append(":path", Self.pathPrefix + digits, isIndexed: false)
        self.identifierField = fields.count
        self.identifierStart = values.count
        append("apns-id", Array(repeating: 0, count: PushIdentifier.characterCount), isIndexed: true)
        self.fields = fields
        self.values = values
        self.commonFieldCount = fields.count
        self.commonByteCount = values.count
        self.seldomFieldCount = fields.count
        self.seldomByteCount = values.count
    }

    /// Replaces the fields of the previous request.
    ///
    /// A field that differs with each request is indexed once, for its name.
    ///
    /// - SeeAlso: "Sending notification requests to APNs", on HPACK.
    mutating func set(_ request: PushRequest, authorization: String?) {
        self.setSeldom(request)
        let digitsStart = self.pathStart + Self.pathPrefix.count
        self.values.setHexadecimal(request.token, at: digitsStart)
        self.fields[self.pathField].value = self.pathStart..<(digitsStart + 2 * request.token.byteCount)
        self.values.setText(of: request.apnsID, at: self.identifierStart)
        self.fields[self.identifierField].isIndexed = !self.hasIdentifier
        self.hasIdentifier = true
        if let authorization { self.append("authorization", authorization, isIndexed: false) }
        if let expiration = request.expiry.wireValue {
            self.append("apns-expiration", String(expiration), isIndexed: !self.hasExpiration)
            self.hasExpiration = true
        }
        if let collapse = request.collapseID {
            self.append("apns-collapse-id", collapse, isIndexed: !self.hasCollapseIdentifier)
            self.hasCollapseIdentifier = true
        }
    }

    /// Sets the fields that rarely change, and removes those after them.
    private mutating func setSeldom(_ request: PushRequest) {
        let isSame =
            self.priority == request.priority && self.pushType == request.pushType && self.topic == request.topic
        self.cut(
            fieldCount: isSame ? self.seldomFieldCount : self.commonFieldCount,
            byteCount: isSame ? self.seldomByteCount : self.commonByteCount
        )
        guard !isSame else { return }
        if let topic = request.topic { self.append("apns-topic", topic, isIndexed: true) }
        if let type = request.pushType { self.append("apns-push-type", type.rawValue, isIndexed: true) }
        if let priority = request.priority { self.append("apns-priority", String(priority), isIndexed: true) }
        self.topic = request.topic
        self.pushType = request.pushType
        self.priority = request.priority
        self.seldomFieldCount = self.fields.count
        self.seldomByteCount = self.values.count
    }

    private mutating func cut(fieldCount: Int, byteCount: Int) {
        guard self.fields.count > fieldCount else { return }
        self.fields.removeLast(self.fields.count - fieldCount)
        self.values.removeLast(self.values.count - byteCount)
    }

    /// Creates no fields, for one request with fields of its own.
    init() {
        (self.pathField, self.pathStart, self.identifierField, self.identifierStart) = (0, 0, 0, 0)
        (self.commonFieldCount, self.commonByteCount, self.seldomFieldCount, self.seldomByteCount) = (0, 0, 0, 0)
    }

    mutating func append(_ name: StaticString, _ value: String, isIndexed: Bool) {
        let start = self.values.count
        self.values += value.utf8
        self.fields.append(Field(name: name, value: start..<self.values.count, isIndexed: isIndexed))
    }
}
