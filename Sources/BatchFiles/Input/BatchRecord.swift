// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// One notification of batch input, whose bytes lie in the memory of the reader.
///
/// A caller makes one and has the reader fill it again and again, since to move a record costs more than to read a
/// token.
///
/// - Important: ``payload`` and ``id`` are valid until the reader is asked for the next record, or filled.
@safe package struct BatchRecord {
    /// The line that it begins at, counted from 1.
    package internal(set) var lineNumber = 0
    /// The device; of no meaning before the first record is read.
    package var token = BatchRecord.noToken
    /// The payload, checked, and minified where the options say so.
    package internal(set) var payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    /// Seconds since 1970, 0 for "do not store", `nil` where the input says nothing.
    package internal(set) var expiry: UInt32?
    /// 10 or 5, `nil` where the input says nothing.
    package internal(set) var priority: UInt8?
    /// The JSON value that the result is told apart by, as it is written; empty where the input has none.
    package internal(set) var id = unsafe UnsafeRawBufferPointer(start: nil, count: 0)

    /// Makes a record to be filled.
    package init() {}

    private static let noToken: DeviceToken = {
        guard let token = try? DeviceToken(bytes: CollectionOfOne(0)) else {
            preconditionFailure("One byte is a token.")
        }
        return token
    }()

    /// Forgets what the input may leave out.
    @inline(__always)
    mutating func begin(lineNumber: Int) {
        self.lineNumber = lineNumber
        self.expiry = nil
        self.priority = nil
        unsafe self.id = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    }
}

/// What a reader comes upon.
@frozen
package enum BatchReadResult: Hashable, Sendable {
    /// A notification, which the record now holds.
    case record
    /// A line that is passed over, for the reason in ``BatchReader/problem``; the next call goes on behind it.
    case bad
    /// Nothing before more bytes come: fill the reader.
    case needMore
    /// The input as a whole cannot be read, for the reason in ``BatchReader/problem``; each further call returns
    /// ``end``.
    case refused
    /// All was read.
    case end
}
