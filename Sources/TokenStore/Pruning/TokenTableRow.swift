// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The kind of a value in a row.
enum TokenTableValueKind: Equatable {
    case null
    case integer
    case number
    case text
    case blob
    /// Microseconds since the year 2000, as an integer.
    case timestamp(hasZone: Bool)
    /// Days since the year 2000, as an integer.
    case date
}

/// A row of a token table, whose values are valid until the next one is read.
protocol TokenTableRow {
    /// Returns the kind of a value.
    func kind(_ column: Int32) -> TokenTableValueKind

    /// Returns an integer.
    func integer(_ column: Int32) -> Int64

    /// Returns an integer or a number.
    func number(_ column: Int32) -> Double

    /// Returns the bytes of a text or BLOB.
    func bytes(_ column: Int32) -> UnsafeRawBufferPointer
}

extension TokenTableRow {
    /// The bytes of a text in UTF-8; `nil` for any other value.
    func text(_ column: Int32) -> UnsafeRawBufferPointer? {
        unsafe self.kind(column) == .text ? self.bytes(column) : nil
    }

    /// Decodes a token into a buffer; `nil` if it is not one.
    func token(
        _ column: Int32,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: DeviceTokenSpelling)? {
        switch self.kind(column) {
        case .text: unsafe DeviceTokenText.decode(self.bytes(column), .any, into: target)
        case .blob: unsafe DeviceTokenText.decode(blob: self.bytes(column), into: target)
        case .null, .integer, .number, .timestamp, .date: nil
        }
    }

    /// Whether there is no token, as for a device that never registered for push.
    func isEmpty(_ column: Int32) -> Bool {
        switch self.kind(column) {
        case .null: true
        case .text, .blob: unsafe self.bytes(column).isEmpty
        case .integer, .number, .timestamp, .date: false
        }
    }

    /// Interprets a time; `nil` if it is not one.
    func time(_ column: Int32) -> RegistrationTime? {
        switch self.kind(column) {
        case .integer: RegistrationTime(self.integer(column))
        case .number: RegistrationTime(self.number(column))
        case .text: unsafe RegistrationTime(text: self.bytes(column))
        case .timestamp(let hasZone): RegistrationTime(microseconds: self.integer(column), hasZone: hasZone)
        case .date: RegistrationTime(days: self.integer(column))
        case .null, .blob: nil
        }
    }

    /// Whether the value is text or a BLOB other than the digits 0 and 1.
    func isText(_ column: Int32) -> Bool {
        switch self.kind(column) {
        case .blob: true
        case .text: unsafe !self.bytes(column).elementsEqual("0".utf8) && !self.bytes(column).elementsEqual("1".utf8)
        case .null, .integer, .number, .timestamp, .date: false
        }
    }

    /// Whether the value is zero, as a number or text.
    func isZero(_ column: Int32) -> Bool {
        switch self.kind(column) {
        case .null, .blob, .timestamp, .date: false
        case .text: unsafe self.bytes(column).elementsEqual("0".utf8)
        case .integer, .number: self.number(column) == 0
        }
    }
}

/// The places of the values in a row: the key, then the token, the registration, the topic and the flag, if there are.
struct TokenTableLayout {
    /// The name of the table, for messages.
    var name: String
    /// The number of values in the key.
    var keyCount: Int
    /// Whether the key is one number, which reports may show; a key of the application may be a token.
    var hasRowNumbers: Bool
    var hasRegistration: Bool
    var hasTopic: Bool
    /// The name of the flag, for messages; `nil` if there is none.
    var active: String?

    var tokenIndex: Int32 { Int32(self.keyCount) }
    var registrationIndex: Int32? { self.hasRegistration ? self.tokenIndex + 1 : nil }
    var topicIndex: Int32? { self.hasTopic ? self.tokenIndex + (self.hasRegistration ? 2 : 1) : nil }
    var activeIndex: Int32? {
        self.active.map { _ in self.tokenIndex + 1 + (self.hasRegistration ? 1 : 0) + (self.hasTopic ? 1 : 0) }
    }

    /// The number of values that tell whether a row has changed: key, token, registration.
    var comparedCount: Int { self.keyCount + (self.hasRegistration ? 2 : 1) }
}

/// What to do about a row that was read.
enum TokenTableStep {
    case skip
    /// Prune it with the next batch.
    case collect
    /// Read no more.
    case stop
}

/// A token table in the database of an application, as the pruning reads and changes it.
///
/// Due rows are collected, and pruned in batches, each of which is one transaction.
protocol TokenTableConnection {
    associatedtype Row: TokenTableRow

    var layout: TokenTableLayout { get }

    /// Whether all rows were read.
    var isAtEnd: Bool { get }

    /// Starts again before the first row.
    mutating func rewind() throws

    /// Calls `body` with rows in the order of their keys: as many as are read at a time, or until it stops, or there
    /// are enough for a batch.
    mutating func read(_ body: (Row) throws -> TokenTableStep) throws

    /// The number of collected rows.
    var collectedCount: Int { get }

    /// Whether there are enough rows for a batch.
    var isFull: Bool { get }

    /// Prunes the collected rows that have not changed since they were read, and counts the results.
    mutating func prune(_ report: inout TokenTableReport) throws

    /// Returns an error of the database for the user; `nil` for any other error.
    func translated(_ error: any Error) -> TokenTableError?
}
