// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// The header fields of a response over HTTP/2 that are passed on to the caller, and the body if the caller needs it.
///
/// Most responses have none of them, so it is created only for those that do.
@dynamicMemberLookup
package final class ResponseFields: Hashable, Sendable {
    /// The values.
    package struct Values: Hashable, Sendable {
        /// The value of `apns-unique-id`, which the service sends in its development environment, and for broadcasts.
        package var apnsUniqueID: PushIdentifier?
        /// The value of `retry-after`, if it is a number of seconds.
        package var retryAfter: Duration?
        /// The value of `apns-channel-id`, in the response to a request that creates a channel.
        package var apnsChannelID: String?
        /// The body of the response to a request about channels.
        package var body = ByteBuffer()

        package init() {}
    }

    /// The name of such a field.
    package enum Name {
        case apnsUniqueID
        case retryAfter
        case apnsChannelID

        private static let uniqueIdentifierText = Array("apns-unique-id".utf8)
        private static let retryAfterText = Array("retry-after".utf8)
        private static let channelIdentifierText = Array("apns-channel-id".utf8)

        /// Parses a name, which is in lower case over HTTP/2; `nil` for any other field.
        package init?(_ name: UnsafeBufferPointer<UInt8>) {
            // The lengths exclude almost all other fields.
            switch name.count {
            case 14 where unsafe name.elementsEqual(Self.uniqueIdentifierText): self = .apnsUniqueID
            case 11 where unsafe name.elementsEqual(Self.retryAfterText): self = .retryAfter
            case 15 where unsafe name.elementsEqual(Self.channelIdentifierText): self = .apnsChannelID
            default: return nil
            }
        }

        /// The maximum length of a value.
        fileprivate var byteCountMax: Int {
            self == .apnsChannelID ? WireLimits.channelIDCharacterCountMax : PushIdentifier.characterCount
        }
    }

    /// The values.
    package let values: Values

    package init(_ values: Values) { self.values = values }

    /// One of the values.
    package subscript<Value>(dynamicMember path: KeyPath<Values, Value>) -> Value { self.values[keyPath: path] }

    /// Adds a field; a value in another form has no effect.
    package convenience init(_ earlier: ResponseFields?, _ name: Name, _ value: UnsafeBufferPointer<UInt8>) {
        var values = earlier?.values ?? Values()
        if value.count <= name.byteCountMax {
            let text = unsafe String(decoding: value, as: UTF8.self)
            switch name {
            case .apnsUniqueID: values.apnsUniqueID = PushIdentifier(text) ?? values.apnsUniqueID
            case .retryAfter: values.retryAfter = UInt32(text).map { .seconds(Int64($0)) } ?? values.retryAfter
            case .apnsChannelID: values.apnsChannelID = text
            }
        }
        self.init(values)
    }

    package static func == (left: ResponseFields, right: ResponseFields) -> Bool { left.values == right.values }

    package func hash(into hasher: inout Hasher) { hasher.combine(self.values) }
}
