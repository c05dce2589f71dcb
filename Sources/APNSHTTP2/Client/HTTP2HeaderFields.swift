// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The header fields of one request: their names, and their values one behind the other.
///
/// One of these serves all requests of a connection, so that its memory is allocated once.
struct HTTP2HeaderFields {
    /// A field whose value is a part of ``values``.
    struct Field {
        var name: StaticString
        var value: Range<Int>
        /// Whether the service may keep it in its table; tokens and secrets never are.
        var isIndexed: Bool
    }

    private(set) var fields: [Field] = []
    private(set) var values: [UInt8] = []

    private let commonFieldCount: Int
    private let commonByteCount: Int
    // The table of the service has the name of each of these after it came once.
    private var hasIdentifier = false
    private var hasExpiration = false
    private var hasCollapseIdentifier = false

    private static let pathPrefix = Array("/3/device/".utf8)

    /// Makes the fields that all requests to a service have.
    init(authority: String) {
        var fields: [Field] = []
        var values: [UInt8] = []
        for (name, value) in [(":method", "POST"), (":scheme", "https"), (":authority", authority)]
            as [(StaticString, String)]
        {
            let start = values.count
            values += value.utf8
            fields.append(Field(name: name, value: start..<values.count, isIndexed: true))
        }
        self.fields = fields
        self.values = values
        self.commonFieldCount = fields.count
        self.commonByteCount = values.count
    }

    /// Takes the place of the last request's fields.
    ///
    /// What differs with each request is indexed once, for the sake of its name.
    ///
    /// - SeeAlso: "Sending notification requests to APNs", on HPACK.
    mutating func set(_ request: PushRequest, authorization: String?) {
        self.fields.removeLast(self.fields.count - self.commonFieldCount)
        self.values.removeLast(self.values.count - self.commonByteCount)
        self.append(":path", isIndexed: false) { values in
            values += Self.pathPrefix
            values.appendHexadecimal(request.token)
        }
        if let authorization { self.append("authorization", authorization, isIndexed: false) }
        self.append("apns-id", isIndexed: !self.hasIdentifier) { $0.appendText(of: request.identifier) }
        self.hasIdentifier = true
        if let expiration = request.expiration {
            self.append("apns-expiration", String(expiration), isIndexed: !self.hasExpiration)
            self.hasExpiration = true
        }
        if let collapse = request.collapseIdentifier {
            self.append("apns-collapse-id", collapse, isIndexed: !self.hasCollapseIdentifier)
            self.hasCollapseIdentifier = true
        }
        if let topic = request.topic { self.append("apns-topic", topic, isIndexed: true) }
        if let type = request.pushType { self.append("apns-push-type", type.rawValue, isIndexed: true) }
        if let priority = request.priority { self.append("apns-priority", String(priority), isIndexed: true) }
    }

    private mutating func append(_ name: StaticString, _ value: String, isIndexed: Bool) {
        self.append(name, isIndexed: isIndexed) { $0 += value.utf8 }
    }

    private mutating func append(_ name: StaticString, isIndexed: Bool, _ write: (inout [UInt8]) -> Void) {
        let start = self.values.count
        write(&self.values)
        self.fields.append(Field(name: name, value: start..<self.values.count, isIndexed: isIndexed))
    }
}
