// SPDX-License-Identifier: Apache-2.0

/// The header fields of a response over HTTP/2 that are passed on to the caller.
///
/// Most responses have none of them, so it is created only for those that do.
package final class ResponseFields: Hashable, Sendable {
    /// The name of such a field.
    package enum Name {
        case apnsUniqueID
        case retryAfter

        private static let uniqueIdentifierText = Array("apns-unique-id".utf8)
        private static let retryAfterText = Array("retry-after".utf8)

        /// Parses a name, which is in lower case over HTTP/2; `nil` for any other field.
        package init?(_ name: UnsafeBufferPointer<UInt8>) {
            // The lengths exclude almost all other fields.
            switch name.count {
            case 14 where unsafe name.elementsEqual(Self.uniqueIdentifierText): self = .apnsUniqueID
            case 11 where unsafe name.elementsEqual(Self.retryAfterText): self = .retryAfter
            default: return nil
            }
        }
    }

    /// The value of `apns-unique-id`, which the service sends in its development environment.
    package let apnsUniqueID: PushIdentifier?
    /// The value of `retry-after`, if it is a number of seconds.
    package let retryAfter: Duration?

    /// The maximum length of a value: that of an identifier.
    private static let byteCountMax = PushIdentifier.characterCount

    package init(apnsUniqueID: PushIdentifier? = nil, retryAfter: Duration? = nil) {
        self.apnsUniqueID = apnsUniqueID
        self.retryAfter = retryAfter
    }

    /// Adds a field; a value in another form has no effect.
    package convenience init(_ earlier: ResponseFields?, _ name: Name, _ value: UnsafeBufferPointer<UInt8>) {
        var (identifier, retryAfter) = (earlier?.apnsUniqueID, earlier?.retryAfter)
        if value.count <= Self.byteCountMax {
            let text = unsafe String(decoding: value, as: UTF8.self)
            switch name {
            case .apnsUniqueID: identifier = PushIdentifier(text) ?? identifier
            case .retryAfter: retryAfter = UInt32(text).map { .seconds(Int64($0)) } ?? retryAfter
            }
        }
        self.init(apnsUniqueID: identifier, retryAfter: retryAfter)
    }

    package static func == (left: ResponseFields, right: ResponseFields) -> Bool {
        left.apnsUniqueID == right.apnsUniqueID && left.retryAfter == right.retryAfter
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.apnsUniqueID)
        hasher.combine(self.retryAfter)
    }
}
