// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

/// Why a payload is invalid, and where.
///
/// The description contains known keys only, and nothing else of the payload.
public struct PayloadProblem: Error, Hashable, Sendable {
    /// What is wrong.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The bytes are not JSON.
        case syntax(JSONProblem)
        /// The payload is JSON, but not an object.
        case notAnObject(JSONKind)
        /// The payload begins like no JSON value, such as text that is not JSON.
        case objectMissing
        /// The payload is longer than the protocol allows; both numbers are in bytes.
        case tooLong(byteCount: Int, byteCountMax: Int)
        /// A known key is repeated in its object, so one of its values would be lost.
        case duplicateKey(PayloadKey)
        /// The value of a known key has the wrong type.
        case wrongKind(PayloadKey, found: JSONKind, allowed: JSONKinds)
        /// An element in the array of a known key is not a string.
        case wrongElementKind(PayloadKey, found: JSONKind)

        /// The known key at fault; `nil` if the problem is not about a known key.
        public var key: PayloadKey? {
            switch self {
            case .syntax, .notAnObject, .objectMissing, .tooLong: nil
            case .duplicateKey(let key), .wrongKind(let key, _, _), .wrongElementKind(let key, _): key
            }
        }
    }

    /// What is wrong.
    public let kind: Kind
    /// The offset of the first byte at fault; the number of bytes if something is missing at the end.
    public let byteOffset: Int
    /// The line, counted from 1; LF, CR LF and a single CR end a line.
    public let line: Int
    /// The column, counted from 1, in Unicode code points.
    public let column: Int

    /// Determines the line and column of a failure.
    package init(_ failure: PayloadFailure, in bytes: UnsafeRawBufferPointer) {
        self.kind = failure.kind
        self.byteOffset = failure.byteOffset
        (self.line, self.column) = unsafe bytes.place(of: failure.byteOffset)
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
        case .objectMissing:
            "expected an object"
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

/// Why a payload is refused and at which byte; its line and column are computed only if needed.
package struct PayloadFailure: Error, Hashable, Sendable {
    /// What is wrong.
    package let kind: PayloadProblem.Kind
    /// The offset of the first byte at fault from the start of the scanner's bytes.
    package let byteOffset: Int

    init(kind: PayloadProblem.Kind, byteOffset: Int) {
        self.kind = kind
        self.byteOffset = byteOffset
    }

    init(_ failure: ScanFailure) {
        self.kind = .syntax(failure.problem)
        self.byteOffset = failure.byteOffset
    }
}
