// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// A part of a line of input: a key of a JSON line or a column of CSV.
package enum BatchColumn: UInt8, Hashable, Sendable, CaseIterable {
    /// The device token; required.
    case token
    /// The payload; required unless all notifications share one.
    case payload
    /// When the service may give up: seconds since 1970, 0, or a duration that begins with `+`.
    case expiry
    /// 10 or 5.
    case priority
    /// Identifies the result: any JSON value, and in CSV any text.
    case id
    /// The text of the alert; only in CSV, in place of a payload.
    case alert
    /// The number on the icon; only in CSV, in place of a payload.
    case badge
    /// The name of the sound; only in CSV, in place of a payload.
    case sound
    /// The topic of a notification over HTTP/2, or of a dead token.
    case topic
    /// The push type of a notification, over HTTP/2.
    case pushType
    /// Notifications with the same value replace each other on the device; over HTTP/2.
    case collapseID
    /// The identifier of the request, a UUID; over HTTP/2.
    case apnsID
    /// The environment of a dead token.
    case environment
    /// The newest failure, as seconds since 1970 or ISO 8601.
    case failedAt
    case firstSeen
    case source
    /// The reason in the response of the HTTP/2 service.
    case reason
    /// The time in that response, in milliseconds since 1970; some other implementations of the service use seconds.
    case timestamp
    /// The outcome of a notification, in the results of `send`.
    case outcome
    /// The gateway's status in those results.
    case status

    /// The name in the input.
    package var name: StaticString {
        switch self {
        case .token: "token"
        case .payload: "payload"
        case .expiry: "expiry"
        case .priority: "priority"
        case .id: "id"
        case .alert: "alert"
        case .badge: "badge"
        case .sound: "sound"
        case .topic: "topic"
        case .pushType: "pushType"
        case .collapseID: "collapseId"
        case .apnsID: "apnsId"
        case .environment: "environment"
        case .failedAt: "failedAt"
        case .firstSeen: "firstSeen"
        case .source: "source"
        case .reason: "reason"
        case .timestamp: "timestamp"
        case .outcome: "outcome"
        case .status: "status"
        }
    }

    /// Whether it is a part of the payload, which only CSV has as a column; in JSON lines, it is a key of `aps`.
    var isPayloadPart: Bool {
        switch self {
        case .alert, .badge, .sound: true
        default: false
        }
    }

    /// Whether a value of a dead token may be a JSON number.
    var isNumeric: Bool { [.failedAt, .firstSeen, .timestamp, .status].contains(self) }

    /// Whether a column says that a token failed, or when.
    var tellsFailure: Bool { [.failedAt, .timestamp, .reason, .outcome, .status].contains(self) }

    /// Whether it is a header field of a request over HTTP/2, which the binary protocol does not have.
    var isOfHTTP2: Bool {
        switch self {
        case .topic, .pushType, .collapseID, .apnsID: true
        default: false
        }
    }

    /// The column whose name is nearest to another one; `nil` if none is near.
    ///
    /// The columns of requests are near to misspelled names only: a column `push_token` is rarely a push type.
    static func nearest(_ name: String, in columns: [Self]) -> Self? {
        let (ofRequest, others) = (columns.filter(\.isOfHTTP2), columns.filter { !$0.isOfHTTP2 })
        let found =
            NearestName.find(name, in: ofRequest.map(\.description), .typingErrors)
            ?? NearestName.find(name, in: others.map(\.description))
        return columns.first { $0.description == found }
    }

    /// Finds the column of a batch by its name, in upper or lower case, and with or without the hyphens of the name of
    /// a header field, such as `collapse-id`.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let column: Self
        let name: StaticString
        // Each name has a different length, or a different letter in this place.
        switch bytes.count {
        case 2: (column, name) = (.id, "id")
        case 5:
            switch unsafe (bytes[0] | 0x20, bytes[2] | 0x20) {
            case (UInt8(ascii: "t"), UInt8(ascii: "k")): (column, name) = (.token, "token")
            case (UInt8(ascii: "t"), _): (column, name) = (.topic, "topic")
            case (UInt8(ascii: "a"), _): (column, name) = (.alert, "alert")
            case (UInt8(ascii: "b"), _): (column, name) = (.badge, "badge")
            default: (column, name) = (.sound, "sound")
            }
        case 6 where unsafe bytes[0] | 0x20 == UInt8(ascii: "a"): (column, name) = (.apnsID, "apnsid")
        case 6: (column, name) = (.expiry, "expiry")
        case 7 where unsafe bytes[0] | 0x20 == UInt8(ascii: "a"): (column, name) = (.apnsID, "apns-id")
        case 7: (column, name) = (.payload, "payload")
        case 8 where unsafe bytes[1] | 0x20 == UInt8(ascii: "u"): (column, name) = (.pushType, "pushtype")
        case 8: (column, name) = (.priority, "priority")
        case 9: (column, name) = (.pushType, "push-type")
        case 10: (column, name) = (.collapseID, "collapseid")
        case 11: (column, name) = (.collapseID, "collapse-id")
        default: return nil
        }
        // This bit is the only difference between a letter of ASCII in upper and in lower case.
        for index in 0..<bytes.count where unsafe bytes[index] | 0x20 != name.utf8Start[index] { return nil }
        self = column
    }
}

/// What the lines of an input are about.
package enum InputKind: Hashable, Sendable {
    /// Notifications to send.
    case batch
    /// Dead tokens for a purge list, with comments in any format, and columns and keys for other programs.
    case deadTokens

    /// The columns that a line can have.
    var columns: [BatchColumn] {
        switch self {
        case .batch:
            [
                .token, .payload, .expiry, .priority, .id, .topic, .pushType, .collapseID, .apnsID, .alert, .badge,
                .sound,
            ]
        case .deadTokens:
            [
                .token, .topic, .environment, .failedAt, .firstSeen, .source, .reason, .timestamp, .outcome, .status,
                .payload,
            ]
        }
    }

    /// The keys of a JSON line of a batch.
    static let keys = Self.batch.columns.filter { !$0.isPayloadPart }

    /// Finds the column of a name.
    ///
    /// Returns the column, and whether the name has the usual spelling. That of a batch may be in upper or lower case.
    /// For dead tokens it is that of exports, and others such as `FailedAt` are found, too.
    func column(_ bytes: UnsafeRawBufferPointer) -> (column: BatchColumn, isUsual: Bool)? {
        guard self == .deadTokens else { return unsafe BatchColumn(bytes).map { ($0, true) } }
        guard let name = unsafe String(validating: bytes, as: UTF8.self) else { return nil }
        if let column = Self.exportNames[name] { return (column, true) }
        return Self.foldedNames[name.lowercased().filter { $0 != "_" }].map { ($0, false) }
    }

    /// Finds the column of a name.
    func column(named name: String) -> BatchColumn? {
        unsafe Array(name.utf8).withUnsafeBytes { unsafe self.column($0)?.column }
    }

    private static let exportNames = Dictionary(
        uniqueKeysWithValues: Self.deadTokens.columns.map { ($0.description, $0) }
            + [("failed_at", .failedAt), ("first_seen", .firstSeen)]
    )
    private static let foldedNames = Dictionary(
        uniqueKeysWithValues: Self.deadTokens.columns.map { ($0.description.lowercased(), $0) }
    )
}

extension BatchColumn: CustomStringConvertible {
    /// The name in the input.
    package var description: String {
        self.name.description
    }
}
