// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOHPACK

/// The headers of a request, as far as they can be checked without context.
struct PushRequestHead: Equatable {
    var apnsID: PushIdentifier
    /// The device token's part of the path.
    ///
    /// It is parsed by ``token()`` after the credentials are checked.
    var tokenText: Substring
    var topic: String?
    var pushType: PushType?
    var priority: UInt8?
    var expiration: UInt32?
    var collapseID: String?
    var authorization: String?

    private static let collapseIDByteCountMax = WireLimits.collapseIDByteCountMax
    private static let pathPrefix = "/3/device/"
    /// Not a reason of Apple's, so that nobody looks for a mistake in the request.
    private static let broadcastReason = PushReason.other("BroadcastsAreNotSimulated")

    /// The result of parsing.
    enum Result: Equatable {
        case head(PushRequestHead)
        /// The identifier for the response, and why the request is rejected.
        case refused(PushIdentifier, PushRefusal)
        /// The request is one about broadcast channels.
        case broadcast
    }

    /// Parses headers, in the order of Apple's service; those of requests about broadcast channels only if the service
    /// has no channels.
    ///
    /// Returns the parsed headers, or the reason for a rejection.
    static func read(_ headers: HPACKHeaders, certificateTopics: [String], hasChannels: Bool = false) -> Result {
        let values = Values(headers)
        if hasChannels, BroadcastRequest.isPath(values[":path"] ?? "") { return .broadcast }
        let text = values["apns-id"]
        let known = text.flatMap { PushIdentifier($0) }
        var random = SystemRandomNumberGenerator()
        let identifier = known ?? PushIdentifier(using: &random)
        if text != nil, known == nil {
            return .refused(identifier, PushRefusal(.badMessageId, "apns-id is not a UUID"))
        }
        if let name = values.repeatedName {
            return .refused(identifier, PushRefusal(.duplicateHeaders, "\(name) occurs twice"))
        }
        do throws(PushRefusal) {
            return .head(try self.head(values, identifier, certificateTopics))
        } catch {
            return .refused(identifier, error)
        }
    }

    private static func head(
        _ values: Values,
        _ identifier: PushIdentifier,
        _ certificateTopics: [String]
    ) throws(PushRefusal) -> Self {
        guard !BroadcastRequest.isPath(values[":path"] ?? "") else {
            throw PushRefusal(self.broadcastReason, "broadcasts are not simulated")
        }
        guard values[":method"] == "POST" else { throw PushRefusal(.methodNotAllowed, "the method is not POST") }
        let topic = values["apns-topic"] ?? self.topic(of: certificateTopics)
        guard let topic else {
            throw PushRefusal(.missingTopic, "there is no apns-topic, and no certificate for a single topic")
        }
        guard TopicFamily.isTopic(topic) else {
            throw PushRefusal(.badTopic, "apns-topic is not 1 to 255 letters, digits, hyphens, periods and underscores")
        }
        let collapse = values["apns-collapse-id"]
        guard (collapse?.utf8.count ?? 0) <= self.collapseIDByteCountMax else {
            throw PushRefusal(
                .badCollapseId,
                "apns-collapse-id has more than \(self.collapseIDByteCountMax) bytes"
            )
        }
        let priority = values["apns-priority"]
        guard ["10", "5", "1", nil].contains(priority) else {
            throw PushRefusal(.badPriority, "apns-priority is not 10, 5 or 1")
        }
        let priorityValue = priority.flatMap { UInt8($0) }
        var expiration: UInt32?
        if let text = values["apns-expiration"] {
            guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seconds = UInt64(text) else {
                throw PushRefusal(.badExpirationDate, "apns-expiration is not a number of seconds")
            }
            expiration = UInt32(clamping: seconds)
        }
        let type = values["apns-push-type"].map { PushType(rawValue: $0) }
        if let type, !PushType.documented.contains(type) {
            throw PushRefusal(.invalidPushType, "apns-push-type is not a documented one")
        }
        if let problem = type?.problem(topic: topic, priority: priorityValue, expiration: expiration) {
            throw problem
        }
        let path = values[":path"] ?? ""
        guard path.hasPrefix(self.pathPrefix) else {
            throw PushRefusal(.badPath, "the path does not begin with \(self.pathPrefix)")
        }
        return Self(
            apnsID: identifier,
            tokenText: path.dropFirst(self.pathPrefix.count),
            topic: topic,
            pushType: type,
            priority: priorityValue,
            expiration: expiration,
            collapseID: collapse,
            authorization: values["authorization"]
        )
    }

    /// The default topic: that of a certificate for a single one.
    private static func topic(of certificateTopics: [String]) -> String? {
        certificateTopics.count == 1 ? certificateTopics.first : nil
    }

    /// The topic of a request, regardless of other errors.
    static func topic(_ headers: HPACKHeaders, certificateTopics: [String]) -> String? {
        headers.first(name: "apns-topic") ?? self.topic(of: certificateTopics)
    }

    /// The device token's part of the path, regardless of other errors; its length is limited.
    static func tokenText(_ headers: HPACKHeaders) -> String {
        guard let path = headers.first(name: ":path"), path.hasPrefix(self.pathPrefix) else { return "" }
        return String(path.dropFirst(self.pathPrefix.count).prefix(RefusedPush.tokenTextCountMax))
    }

    /// Parses the device token; `nil` unless it has 1 to 100 bytes in hexadecimal digits.
    func token() -> DeviceToken? {
        let isHexadecimal = self.tokenText.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x61...0x66).contains($0 | 0x20)
        }
        return isHexadecimal ? try? DeviceToken(self.tokenText) : nil
    }

    /// The values of the known headers; others are ignored.
    private struct Values {
        private var values = InlineArray<9, String?>(repeating: nil)
        /// The last known name that occurs twice.
        private(set) var repeatedName: String?

        init(_ headers: HPACKHeaders) {
            for (name, value, _) in headers {
                guard let index = Self.index(name) else { continue }
                if self.values[index] != nil { self.repeatedName = name }
                self.values[index] = value
            }
        }

        subscript(_ name: String) -> String? { Self.index(name).flatMap { self.values[$0] } }

        private static func index(_ name: String) -> Int? {
            // Few names have the same length, so most are compared with at most one.
            switch (name.utf8.count, name) {
            case (5, ":path"): 0
            case (7, ":method"): 1
            case (7, "apns-id"): 2
            case (10, "apns-topic"): 3
            case (13, "authorization"): 4
            case (13, "apns-priority"): 5
            case (14, "apns-push-type"): 6
            case (15, "apns-expiration"): 7
            case (16, "apns-collapse-id"): 8
            default: nil
            }
        }
    }
}
