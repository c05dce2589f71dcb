// SPDX-License-Identifier: Apache-2.0

package import APNSJSON
package import APNSPayload
package import APNSWire

/// Why a line of a batch or of a list of tokens is skipped, or why the input is refused.
///
/// The description never contains a token or a payload, and of the input only the names of unknown keys and columns.
package struct BatchProblem: Error, Hashable, Sendable {
    /// What is wrong.
    @nonexhaustive
    package enum Kind: Error, Hashable, Sendable {
        /// The line is longer than the limit, in bytes.
        case lineTooLong(byteCountMax: Int)
        /// The line is not JSON, or its payload is refused.
        case json(PayloadProblem.Kind)
        /// The line is a comment, which JSON does not have.
        case comment
        /// The line has typographic quotes, which a text editor writes.
        case typographicQuotes
        /// The line is JSON, but not an object.
        case notAnObject(JSONKind)
        /// The payload in a row of CSV is refused; line and column are those in the payload.
        case payload(PayloadProblem)
        /// The line has a key with an unknown name; these columns may be meant.
        case unknownKey(ColumnName, free: [BatchColumn])
        /// The line or the header has the usual name of a column that is mapped to another name.
        case replacedName(BatchColumn, by: String)
        /// The line has a key twice.
        case duplicateKey(BatchColumn)
        /// A value has a kind that its key does not allow.
        case wrongKind(String, found: JSONKind, expected: JSONKinds)
        /// There is no token.
        case missingToken
        /// The token cannot be read in any spelling.
        case invalidToken
        /// There are several tokens on one line.
        case severalTokens
        /// There is more on the line than a token.
        case textAfterToken
        /// A token is in quotes.
        case quotedToken
        /// A token in base64 lacks its padding.
        case unpaddedToken
        /// A digit of a token is missing, or there is one too many.
        case oddToken(digitCount: Int)
        /// The payload has a push type that cannot be sent with the topic of all notifications.
        case pushType(DeliveryOutcome.InvalidReason)
        /// There is no payload, and no common one.
        case missingPayload
        /// Each column from which the payload of a row is built is empty in it.
        case emptyPayloadParts
        /// The badge in a row of CSV is not a whole number, or negative.
        case invalidBadge
        /// The header has columns that are parts of the payload, and the payload comes from elsewhere, too.
        case severalPayloads([BatchColumn], hasColumn: Bool, isSkippable: Bool)
        /// `--column` maps a column that the format does not have.
        case columnOfCSV(BatchColumn)
        /// The expiry is neither a whole number of seconds nor a duration.
        case invalidExpiry
        /// The expiry is so small that it must be meant as a duration, in seconds.
        case relativeExpiry(UInt32)
        /// The expiry does not fit in the 32 bits of the protocol.
        case expiryTooLate
        /// The priority is neither 10 nor 5.
        case invalidPriority
        /// A field of a request over HTTP/2 does not have the form that it must have.
        case invalidField(BatchColumn)
        /// A field of a request over HTTP/2 is not carried.
        case fieldNotSent(BatchColumn, RequestFieldRules.Transport)
        /// The topic is not one of those that the run is for.
        case topicNotAllowed([String])
        /// A row of CSV has a different number of fields than the header.
        case fieldCount(found: Int, expected: Int)
        /// A quote in a row of CSV is in the wrong place, or unbalanced.
        case misplacedQuote
        /// The line is not UTF-8.
        case notUTF8
        /// A field of CSV is not UTF-8.
        case invalidUTF8(BatchColumn)
        /// The first line of CSV is a row, not a header such as this one.
        case missingHeader(proposal: String)
        /// The first line of CSV is the separator, which only Excel reads.
        case separatorLine
        /// Another character than a comma, a semicolon or a tab separates the columns of the header.
        case unknownSeparator(String)
        /// Columns of the header have unknown names.
        case unknownColumns(UnknownColumns)
        /// The header has a column twice.
        case duplicateColumn(BatchColumn)
        /// The header lacks a required column, or the name that it is mapped to.
        case missingColumn(BatchColumn, mappedName: String?, header: [HeaderName])
        /// There is no topic for a dead token.
        case missingTopic
        /// There is no environment for a dead token.
        case missingEnvironment
        /// The environment is neither production nor sandbox.
        case invalidEnvironment
        /// There is no time of failure for a dead token.
        case missingTime
        /// The value of this name is not a time.
        case invalidTime(String)
        /// The time of this name is in the future.
        case futureTime(String)
        /// The line is a notification to send, and nothing in it says that its token is dead.
        case notification
        /// A purge list refuses the entry, for this reason.
        case unfit(String)
    }

    /// What is wrong.
    package let kind: Kind
    /// The line, counted from 1; for a row of CSV over several lines, the first.
    package let lineNumber: Int
    /// The column in the line, counted from 1 in code points, if one is at fault.
    package let column: Int?

    package init(_ kind: Kind, lineNumber: Int, column: Int? = nil) {
        self.kind = kind
        self.lineNumber = lineNumber
        self.column = column
    }
}

extension BatchProblem.Kind {
    /// Why a text is not a token.
    static func token(_ text: UnsafeRawBufferPointer) -> Self {
        if unsafe text.withoutQuotes.count < text.count { return .quotedToken }
        var token = BatchRecord().token
        let isToken = { (word: UnsafeRawBufferPointer.SubSequence) in
            let word = unsafe UnsafeRawBufferPointer(rebasing: word)
            return unsafe word.count >= 2 * WireLimits.tokenByteCountUsual
                && DeviceTokenText.decode(word, into: &token)
        }
        let words = unsafe text.split { " \t,;|".utf8.contains($0) }
        if unsafe !words.isEmpty, unsafe isToken(words[0]) {
            return unsafe words.count > 1 && isToken(words[1]) ? .severalTokens : .textAfterToken
        }
        let digitCount = unsafe text.count { Hexadecimal.value($0) < 16 }
        if digitCount == text.count, !digitCount.isMultiple(of: 2) { return .oddToken(digitCount: digitCount) }
        let padded = unsafe Array(text) + "=".utf8
        let isUnpadded = unsafe padded.withUnsafeBytes { unsafe DeviceTokenText.decode($0, into: &token) }
        return isUnpadded ? .unpaddedToken : .invalidToken
    }

    /// Why a line is not JSON.
    static func json(_ failure: ScanFailure, in line: UnsafeRawBufferPointer) -> Self {
        let problem = Self.json(.syntax(failure.problem))
        guard [.missingValue, .missingKey].contains(failure.problem) else { return problem }
        let rest = unsafe line.dropFirst(failure.byteOffset)
        if unsafe rest.starts(with: "//".utf8) || rest.starts(with: "/*".utf8) || rest.first == UInt8(ascii: "#") {
            return .comment
        }
        let isQuote = ["“", "”", "„", "‘", "’"].contains { unsafe rest.starts(with: $0.utf8) }
        return isQuote ? .typographicQuotes : problem
    }

    static func token(_ text: String) -> Self {
        unsafe Array(text.utf8).withUnsafeBytes { unsafe Self.token($0) }
    }
}

extension BatchProblem: CustomStringConvertible {
    /// The place and the reason, as in `line 7, column 12: aps.badge is a string, expected a number`.
    package var description: String {
        let place = self.column.map { ", column \($0)" } ?? ""
        return "line \(self.lineNumber)\(place): \(self.kind)"
    }
}

extension BatchProblem.Kind: CustomStringConvertible {
    /// The reason, without the place.
    package var description: String {
        switch self {
        case .lineTooLong(let byteCountMax): "the line is longer than \(byteCountMax.counted("byte"))"
        case .json(.syntax(.trailingContent)): "\(JSONProblem.trailingContent); expected one object per line"
        case .json(.syntax(.invalidUTF8)): "\(JSONProblem.invalidUTF8); \(Self.latin1)"
        case .json(let kind): kind.description
        case .comment: "comments are not JSON; remove the comment"
        case .typographicQuotes: "typographic quotes; JSON needs straight ones (\")"
        case .notAnObject(let found): "expected a JSON object, found \(found)"
        case .payload(let problem) where problem.kind == .syntax(.invalidUTF8): "payload, \(problem); \(Self.latin1)"
        case .payload(let problem): "payload, \(problem)"
        case .unknownKey(let name, let free): Self.text(unknownKey: name, free)
        case .replacedName(let column, let name):
            "\"\(column)\" is unknown, because --column \(column) names \"\(name)\"; to skip it, add "
                + "--ignore-unknown-columns"
        case .duplicateKey(let column): "duplicate key \"\(column)\""
        case .wrongKind(let column, let found, let expected): "\(column) is \(found), expected \(expected)"
        case .notUTF8: "invalid UTF-8; \(Self.latin1)"
        case .missingToken: "missing token"
        case .invalidToken: "invalid device token: expected hexadecimal or base64"
        case .severalTokens: "several device tokens; write one per line"
        case .textAfterToken: "text after the device token; expected the token alone"
        case .quotedToken: "device token in quotes; remove the quotes (jq writes none with -r)"
        case .unpaddedToken: "device token in base64 without padding; add \"=\" at its end"
        case .oddToken(let count): "invalid device token: \(count) hexadecimal digits, expected an even number"
        case .pushType(.topicNotForPushType(let type)):
            "the payload has push type \(type), which the binary protocol cannot send with the topic of the "
                + "certificate; add --transport http2"
        case .pushType(let reason):
            "\(reason), which the binary protocol does not have; add --transport http2 and --push-type"
        case .missingPayload: "missing payload; to share one, add --payload or --alert"
        case .emptyPayloadParts: "missing payload: alert, badge and sound are empty or missing"
        case .invalidBadge: "invalid badge: expected a whole number, 0 or more"
        case .severalPayloads(let parts, let hasColumn, let isSkippable):
            Self.text(several: parts, hasColumn, isSkippable)
        case .columnOfCSV(let column):
            "--column \(column) is only for CSV; in JSON lines, write \(column) in the payload"
        case .invalidExpiry:
            "invalid expiry: expected seconds since 1970, or a duration such as \"+90s\", \"+30m\", \"+1h\" or \"+2d\""
        case .relativeExpiry(let seconds):
            "expiry \(seconds) is a time before 2001; to expire in \(seconds) seconds, write \"+\(seconds)s\""
        case .expiryTooLate: "expiry is after the year 2106; expected seconds, not milliseconds"
        case .invalidPriority: "invalid priority: expected 10 or 5"
        case .invalidField(let column): Self.text(invalid: column)
        case .fieldNotSent(.topic, .binary):
            "the topic is not that of the certificate, which the binary protocol sends with; add --transport http2"
        case .fieldNotSent(.topic, .queue):
            "the topic is not that of the batch, which is the only one; load it with --topic of its own"
        case .fieldNotSent(let column, .binary): "the binary protocol does not have \(column); add --transport http2"
        case .fieldNotSent(let column, .queue): "a queue does not carry \(column); send the line with send"
        case .topicNotAllowed(let topics):
            "the topic is not one of this run (\(topics.joined(separator: ", "))); send it in another run"
        case .fieldCount(let found, let expected): "expected \(expected.counted("field")), found \(found)"
        case .misplacedQuote:
            "misplaced or unbalanced double quote; a field with quotes is written \"{\"\"aps\"\":{}}\""
        case .invalidUTF8(let column): "invalid UTF-8 in \(column); \(Self.latin1)"
        case .missingHeader(let proposal):
            "missing header; add a first line with the names of the columns, such as \(proposal)"
        case .separatorLine: "only Excel reads a line with \"sep=\"; remove it"
        case .unknownSeparator(let text):
            "the columns are separated by \"\(text)\"; expected commas, semicolons or tabs"
        case .unknownColumns(let columns): columns.description
        case .duplicateColumn(let column): "duplicate column \"\(column)\" in the header"
        case .missingColumn(let column, let mappedName, let header): Self.text(missing: column, mappedName, header)
        case .missingTopic: "missing topic; add --topic BUNDLE-ID"
        case .missingEnvironment: "missing environment; add --environment production or --environment sandbox"
        case .invalidEnvironment: "invalid environment: expected production or sandbox"
        case .missingTime: "missing time of failure; add --failed-at with now, a time, or an age such as 1d"
        case .invalidTime(let name): "invalid \(name): expected seconds since 1970 or ISO 8601, before the year 10000"
        case .futureTime(let name): "\(name) is in the future; check the clock, and that it is in seconds"
        case .notification:
            "a notification to send, with a payload and without a reason, outcome or time of failure; if the token is "
                + "dead, name the column with the time: --column failedAt=NAME"
        case .unfit(let reason): reason
        }
    }

    private static let latin1 = "if the file is Latin-1, convert it with: iconv -f LATIN1 -t UTF-8"

    private static func text(invalid column: BatchColumn) -> String {
        let expected =
            switch column {
            case .topic: "letters, digits, hyphens, periods and underscores"
            case .pushType: PushType.documented.map(\.rawValue).sorted().joined(separator: ", ")
            case .collapseID: "text of 1 to \(WireLimits.collapseIDByteCountMax) bytes"
            default: "a UUID, such as 123e4567-e89b-42d3-a456-426614174000"
            }
        return "invalid \(column): expected \(expected)"
    }

    private static func text(unknownKey name: ColumnName, _ free: [BatchColumn]) -> String {
        if name.text == "aps", free.contains(.payload) {
            return "unknown key \"aps\"; write it in the payload: \"payload\": {\"aps\": ...}"
        }
        let valid = "valid keys: \(InputKind.keys.map(\.description).joined(separator: ", "))"
        guard let text = name.text else { return "unknown key; \(valid)" }
        guard let nearest = BatchColumn.nearest(text, in: free)?.description else {
            return "unknown key \"\(text)\"; \(valid)"
        }
        guard NearestName.find(text, in: [nearest], .typingErrors) == nil else {
            return "unknown key \"\(text)\"; did you mean \"\(nearest)\"?"
        }
        return "unknown key \"\(text)\"; to read it as \(nearest), add \(ColumnName.argument(nearest, text))"
    }

    private static func text(several parts: [BatchColumn], _ hasColumn: Bool, _ isSkippable: Bool) -> String {
        let list = parts.map { "\"\($0)\"" }.joined(separator: ", ")
        let (other, remedy) =
            hasColumn
            ? ("the column \"payload\"", "keep one")
            : ("--payload or --alert", "leave out that option")
        let option = isSkippable ? ", or add --ignore-unknown-columns to skip \(list)" : ""
        return "the payload comes from \(list) in the header, and also from \(other); \(remedy)\(option)"
    }

    private static func text(missing column: BatchColumn, _ mappedName: String?, _ header: [HeaderName]) -> String {
        let list = "the header has \(header.list)"
        if let mappedName {
            return "no column \"\(mappedName)\", which --column \(column) names; \(list)"
        }
        let missing = "no column \"\(column)\" in the header"
        guard column == .payload else {
            return "\(missing); if it has another name, add --column \(column)=NAME; \(list)"
        }
        return "\(missing); to send all rows the same payload, add --payload FILE or --alert TEXT; \(list)"
    }
}
