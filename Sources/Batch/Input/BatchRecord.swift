// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// One notification of batch input, whose bytes are in the memory of the reader.
///
/// A caller makes one record and has the reader fill it repeatedly, because moving a record costs more than reading a
/// token.
///
/// - Important: ``payload`` and ``id`` are valid until the reader reads the next record, or more bytes.
@safe package struct BatchRecord {
    /// Its first line, counted from 1.
    package internal(set) var lineNumber = 0
    /// The device; undefined before the first record is read.
    package var token = BatchRecord.noToken
    /// The payload, valid, and minified if the options require it.
    package internal(set) var payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    /// Seconds since 1970, 0 for "do not store", `nil` if the input has none.
    package internal(set) var expiry: UInt32?
    /// 10 or 5, `nil` if the input has none.
    package internal(set) var priority: UInt8?
    /// The JSON value that identifies the result, as it is in the input; empty if the input has none.
    package internal(set) var id = unsafe UnsafeRawBufferPointer(start: nil, count: 0)

    /// Creates an empty record.
    package init() {}

    private static let noToken: DeviceToken = {
        guard let token = try? DeviceToken(bytes: CollectionOfOne(0)) else {
            preconditionFailure("One byte is a token.")
        }
        return token
    }()

    /// Clears the optional fields.
    @inline(__always)
    mutating func begin(lineNumber: Int) {
        self.lineNumber = lineNumber
        self.expiry = nil
        self.priority = nil
        unsafe self.id = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    }
}

/// What a reader found.
@frozen
package enum BatchReadResult: Hashable, Sendable {
    /// A notification, which is now in the record.
    case record
    /// An invalid line, for the reason in ``BatchReader/problem``; the next call continues after it.
    case bad
    /// The reader needs more bytes.
    case needMore
    /// The input as a whole is refused, for the reason in ``BatchReader/problem``; each further call returns ``end``.
    case refused
    /// The input ended.
    case end
}
