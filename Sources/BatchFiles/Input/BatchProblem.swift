// SPDX-License-Identifier: Apache-2.0

package import APNSPayload

/// Why a line of a batch, or of what goes onto or off a purge list, is passed over, or why the input is refused.
///
/// The description never shows a token or a payload, and of the input nothing but the name of an unknown key.
package struct BatchProblem: Error, Hashable, Sendable {
    /// What is wrong.
    @nonexhaustive
    package enum Kind: Error, Hashable, Sendable {
        /// The line is longer than the limit, in bytes.
        case lineTooLong(byteCountMax: Int)
        /// The line is no JSON, or its payload is refused.
        case json(PayloadProblem.Kind)
        /// The line is JSON, and no object.
        case notAnObject(JSONKind)
        /// The payload in a row of CSV is refused; line and column are those in the payload.
        case payload(PayloadProblem)
        /// A key of the line has no meaning; its name where it is short and plain.
        case unknownKey(String?)
        /// A key of the line is there twice.
        case duplicateKey(BatchColumn)
        /// A value is of a kind that its key does not take.
        case wrongKind(String, found: JSONKind)
        /// There is no token.
        case missingToken
        /// The token is none in any spelling.
        case invalidToken
        /// There is no payload, and none that all share.
        case missingPayload
        /// The expiry is no whole number of seconds and no span.
        case invalidExpiry
        /// The expiry is so small that it must be meant as a span, in seconds.
        case relativeExpiry(UInt32)
        /// The expiry is beyond what the protocol can say.
        case expiryTooLate
        /// The priority is neither 10 nor 5.
        case invalidPriority
        /// A row of CSV has another count of fields than the header.
        case fieldCount(found: Int, expected: Int)
        /// A quote in a row of CSV stands where none may, or its partner is missing.
        case misplacedQuote
        /// The line is not UTF-8.
        case notUTF8
        /// A field of CSV is not UTF-8.
        case invalidUTF8(BatchColumn)
        /// A column of the header has no meaning; columns count from 1.
        case unknownColumn(Int)
        /// A column is there twice in the header.
        case duplicateColumn(BatchColumn)
        /// A column that is needed is not in the header.
        case missingColumn(BatchColumn)
        /// Nothing says the topic of a dead token.
        case missingTopic
        /// Nothing says the environment of a dead token.
        case missingEnvironment
        /// The environment is none of the two.
        case invalidEnvironment
        /// Nothing says when a token failed.
        case missingTime
        /// What has this name is no time.
        case invalidTime(String)
        /// The time of this name has not come yet.
        case futureTime(String)
        /// A purge list does not take it, for this reason.
        case unfit(String)
    }

    /// What is wrong.
    package let kind: Kind
    /// The line, counted from 1; for a row of CSV over several lines, the first.
    package let lineNumber: Int
    /// The column in the line, counted from 1 in code points, where one is to blame.
    package let column: Int?

    package init(_ kind: Kind, lineNumber: Int, column: Int? = nil) {
        self.kind = kind
        self.lineNumber = lineNumber
        self.column = column
    }
}

extension BatchProblem: CustomStringConvertible {
    /// The place and the reason, as in `line 7, column 12: aps.badge is a string, not a number`.
    package var description: String {
        let place = self.column.map { ", column \($0)" } ?? ""
        return "line \(self.lineNumber)\(place): \(self.kind)"
    }
}

extension BatchProblem.Kind: CustomStringConvertible {
    /// The reason, without the place.
    package var description: String {
        switch self {
        case .lineTooLong(let byteCountMax):
            "it has more than \(byteCountMax) bytes"
        case .json(let kind):
            kind.description
        case .notAnObject(let found):
            "it is \(found), not an object"
        case .payload(let problem):
            "in its payload, \(problem)"
        case .unknownKey(let name):
            name.map { "it has the unknown key \"\($0)\"" } ?? "it has an unknown key"
        case .duplicateKey(let column):
            "it has \(column) twice"
        case .wrongKind(let column, let found):
            "\(column) is \(found)"
        case .notUTF8:
            "it is not UTF-8"
        case .missingToken:
            "it has no token"
        case .invalidToken:
            "its token is neither hexadecimal digits of 1 to 100 bytes nor the base64 of 32 bytes"
        case .missingPayload:
            "it has no payload"
        case .invalidExpiry:
            "expiry is neither seconds since 1970 nor a span such as \"+90s\", \"+30m\", \"+1h\" or \"+2d\""
        case .relativeExpiry(let seconds):
            "expiry \(seconds) is a moment in 1970 to 2001; write \"+\(seconds)s\" for that many seconds from now"
        case .expiryTooLate:
            "expiry is later than the year 2106; it counts seconds, not milliseconds"
        case .invalidPriority:
            "priority is neither 10 nor 5"
        case .fieldCount(let found, let expected):
            "it has \(found) fields, and the header has \(expected)"
        case .misplacedQuote:
            "a double quote stands where none may, or lacks its partner"
        case .invalidUTF8(let column):
            "\(column) is not valid UTF-8"
        case .unknownColumn(let number):
            "column \(number) of the header is none of token, payload, expiry, priority and id"
        case .duplicateColumn(let column):
            "the header has \(column) twice"
        case .missingColumn(let column):
            "the header has no column \(column)"
        case .missingTopic:
            "it has no topic; say which with --topic"
        case .missingEnvironment:
            "it has no environment; say which with --environment"
        case .invalidEnvironment:
            "its environment is neither production nor sandbox"
        case .missingTime:
            "it has no time of failure; say when with --failed-at: now, a time, or an age such as 1d"
        case .invalidTime(let name):
            "\(name) is neither seconds since 1970 nor ISO 8601, or later than the year 9999"
        case .futureTime(let name):
            "\(name) is in the future; is it in milliseconds, or is a clock wrong?"
        case .unfit(let reason):
            reason
        }
    }
}
