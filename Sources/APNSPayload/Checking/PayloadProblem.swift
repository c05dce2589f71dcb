// SPDX-License-Identifier: Apache-2.0

/// Why a payload is refused, and where.
///
/// The description names known keys only; what else a payload says never appears in it.
public struct PayloadProblem: Error, Hashable, Sendable {
    /// What is wrong.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The bytes are no JSON.
        case syntax(JSONFault)
        /// The payload is JSON, and no object.
        case notAnObject(JSONKind)
        /// The payload is longer than its protocol takes; both numbers are bytes.
        case tooLong(byteCount: Int, byteCountMax: Int)
        /// A known key stands twice in its object, so that one of its values would be lost.
        case duplicateKey(PayloadKey)
        /// The value of a known key is of a type that it cannot have.
        case wrongKind(PayloadKey, found: JSONKind, allowed: JSONKinds)
        /// An element in the array of a known key is no string.
        case wrongElementKind(PayloadKey, found: JSONKind)

        /// The known key at fault; `nil` where the fault is none of a key's.
        public var key: PayloadKey? {
            switch self {
            case .syntax, .notAnObject, .tooLong: nil
            case .duplicateKey(let key), .wrongKind(let key, _, _), .wrongElementKind(let key, _): key
            }
        }
    }

    /// What is wrong.
    public let kind: Kind
    /// The offset of the first byte at fault, counted from 0; it is the byte count when something is missing at the
    /// end.
    public let byteOffset: Int
    /// The line, counted from 1; LF, CR LF and a lone CR end a line.
    public let line: Int
    /// The column, counted from 1, in Unicode code points.
    public let column: Int

    /// Finds the line and the column of what a scanner found.
    package init(_ failure: ScanFailure, in bytes: UnsafeRawBufferPointer) {
        self.kind = failure.kind
        self.byteOffset = failure.byteOffset
        (self.line, self.column) = unsafe Self.place(of: failure.byteOffset, in: bytes)
    }

    /// Counts lines and code points up to an offset; only a refused payload pays for it.
    private static func place(of byteOffset: Int, in bytes: UnsafeRawBufferPointer) -> (line: Int, column: Int) {
        var line = 1
        var column = 1
        var previous: UInt8 = 0
        for index in 0..<min(byteOffset, bytes.count) {
            let byte = unsafe bytes[index]
            switch byte {
            case 0x0A:
                line += previous == 0x0D ? 0 : 1
                column = 1
            case 0x0D:
                line += 1
                column = 1
            case 0x80...0xBF:
                break
            default:
                column += 1
            }
            previous = byte
        }
        return (line, column)
    }
}

extension PayloadProblem: CustomStringConvertible {
    /// The place and the reason, as in `line 3, column 12: aps.badge is a string, expected a number`.
    public var description: String {
        "line \(self.line), column \(self.column): \(self.kind)"
    }
}

extension PayloadProblem.Kind: CustomStringConvertible {
    /// The reason, as in `aps.badge is a string, expected a number`.
    public var description: String {
        switch self {
        case .syntax(let fault):
            fault.description
        case .notAnObject(let found):
            "the payload is \(found), expected an object"
        case .tooLong(let byteCount, let byteCountMax):
            "the payload has \(byteCount) bytes, the limit is \(byteCountMax)"
        case .duplicateKey(let key):
            "duplicate key \(key)"
        case .wrongKind(let key, let found, let allowed):
            "\(key) is \(found), expected \(allowed)"
        case .wrongElementKind(let key, let found):
            "\(key) contains \(found), expected only strings"
        }
    }
}

/// What is wrong at which byte, before anybody asks for line and column.
package struct ScanFailure: Error, Hashable, Sendable {
    /// What is wrong.
    package let kind: PayloadProblem.Kind
    /// The offset of the first byte at fault, counted from the first byte that the scanner was given.
    package let byteOffset: Int

    package init(kind: PayloadProblem.Kind, byteOffset: Int) {
        self.kind = kind
        self.byteOffset = byteOffset
    }
}
