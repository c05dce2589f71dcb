// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire

// The format of faults in JSON and YAML. It is hand-written, since the compiler's format of enumerations is
// inconvenient for people.

/// The file format of a fault, such as `{"at": {"notification": 5}, "effect": {"name": "reject", "status": 8}}`.
extension Fault: Codable {
    private enum Key: String, CodingKey, CaseIterable {
        case trigger = "at"
        case effect, listener, report, occurrenceCountMax
    }

    /// The keys of a fault in a file.
    package static let keyNames = Key.allCases.map(\.rawValue)

    /// Decodes a fault.
    ///
    /// Missing keys have default values, and a fault without a trigger always occurs.
    public init(from decoder: any Decoder) throws {
        try decoder.requireKeys(Self.keyNames)
        let container = try decoder.container(keyedBy: Key.self)
        self.init(
            at: try container.decodeIfPresent(Trigger.self, forKey: .trigger) ?? .always,
            try container.decode(Effect.self, forKey: .effect),
            listener: try container.wordIfPresent(.listener),
            report: try container.decodeIfPresent(FaultReport.self, forKey: .report) ?? FaultReport(),
            occurrenceCountMax: try container.decodeIfPresent(Int.self, forKey: .occurrenceCountMax)
        )
    }

    /// Encodes a fault without default values.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        if self.trigger != .always { try container.encode(self.trigger, forKey: .trigger) }
        try container.encode(self.effect, forKey: .effect)
        try container.encodeIfPresent(self.listener, forKey: .listener)
        if self.report != FaultReport() { try container.encode(self.report, forKey: .report) }
        try container.encodeIfPresent(self.occurrenceCountMax, forKey: .occurrenceCountMax)
    }
}

/// The file format of a trigger: an object with one condition, or several of token, topic, text, header and count, or
/// an empty one for always.
extension Fault.Trigger: Codable {
    private enum Key: String, CodingKey, CaseIterable {
        case notification, notificationOverall, connection, token, topic, text, header, count, probability, seed

        /// Whether it can be combined with others.
        var isCombinable: Bool { [.token, .topic, .text, .header, .count].contains(self) }
    }

    private enum HeaderKey: String, CodingKey, CaseIterable { case name, value }

    /// Decodes a trigger.
    public init(from decoder: any Decoder) throws {
        try decoder.requireKeys(Key.allCases.map(\.rawValue))
        let container = try decoder.container(keyedBy: Key.self)
        let conditions = container.allKeys.filter { $0 != .seed }
        guard conditions.count <= 1 || conditions.allSatisfy(\.isCombinable) else {
            let context = DecodingError.Context(
                codingPath: decoder.codingPath,
                debugDescription: "only token, topic, text, header and count can be combined"
            )
            throw DecodingError.dataCorrupted(context)
        }
        guard conditions.count <= 1, conditions.first == .token || conditions.first?.isCombinable != true else {
            self = .matching(try Self.conditions(container))
            return
        }
        if container.contains(.seed), conditions.first != .probability {
            let sentence = "seed requires probability"
            throw DecodingError.dataCorruptedError(forKey: .seed, in: container, debugDescription: sentence)
        }
        switch conditions.first {
        case .notification: self = .notification(try container.decode(UInt64.self, forKey: .notification))
        case .notificationOverall:
            self = .notificationOverall(try container.decode(UInt64.self, forKey: .notificationOverall))
        case .connection: self = .connection(try container.decode(UInt64.self, forKey: .connection))
        case .token: self = .token(prefix: try container.decode(String.self, forKey: .token))
        case .probability:
            self = .random(
                probability: try container.decode(Double.self, forKey: .probability),
                seed: try container.decodeIfPresent(UInt64.self, forKey: .seed) ?? 0
            )
        case .topic, .text, .header, .count, .seed, nil: self = .always
        }
    }

    private static func conditions(_ container: KeyedDecodingContainer<Key>) throws -> FaultConditions {
        var conditions = FaultConditions(
            tokenPrefix: try container.decodeIfPresent(String.self, forKey: .token),
            topic: try container.decodeIfPresent(String.self, forKey: .topic),
            text: try container.decodeIfPresent(String.self, forKey: .text),
            count: try container.decodeIfPresent(UInt64.self, forKey: .count)
        )
        guard container.contains(.header) else { return conditions }
        try container.superDecoder(forKey: .header).requireKeys(HeaderKey.allCases.map(\.rawValue))
        let header = try container.nestedContainer(keyedBy: HeaderKey.self, forKey: .header)
        conditions.header = FaultConditions.Header(
            try header.decode(String.self, forKey: .name),
            try header.decodeIfPresent(String.self, forKey: .value)
        )
        return conditions
    }

    /// Encodes a trigger.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        switch self {
        case .always: break
        case .notification(let number): try container.encode(number, forKey: .notification)
        case .notificationOverall(let number): try container.encode(number, forKey: .notificationOverall)
        case .connection(let number): try container.encode(number, forKey: .connection)
        case .token(let prefix): try container.encode(prefix, forKey: .token)
        case .random(let probability, let seed):
            try container.encode(probability, forKey: .probability)
            try container.encode(seed, forKey: .seed)
        case .matching(let conditions):
            try container.encodeIfPresent(conditions.tokenPrefix, forKey: .token)
            try container.encodeIfPresent(conditions.topic, forKey: .topic)
            try container.encodeIfPresent(conditions.text, forKey: .text)
            try container.encodeIfPresent(conditions.count, forKey: .count)
            guard let condition = conditions.header else { break }
            var header = container.nestedContainer(keyedBy: HeaderKey.self, forKey: .header)
            try header.encode(condition.name, forKey: .name)
            try header.encodeIfPresent(condition.value, forKey: .value)
        }
    }
}

/// The file format of an effect: its name as in source code, and its values.
extension Fault.Effect: Codable {
    private enum Key: String, CodingKey {
        case name, status, httpStatus, reason, timestamp, milliseconds, code, count, byteCount
    }

    /// The keys of an effect besides its name.
    private static func keys(_ kind: Kind) -> [Key] {
        switch kind {
        case .reject: [.status, .httpStatus, .reason, .timestamp]
        case .delay: [.milliseconds]
        case .goAway, .goAwayFirst: [.reason]
        case .resetStream: [.code]
        case .limitStreams: [.count]
        case .slowReading, .slowWriting: [.byteCount, .milliseconds]
        case .cutList: [.byteCount]
        case .ignore, .shutDown, .closeBefore, .closeAfter, .refuseStream, .refuseHandshake, .refuseConnection,
            .errorResponse:
            []
        }
    }

    /// Decodes an effect.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let name = try container.decode(String.self, forKey: .name)
        guard let kind = Kind(rawValue: name) else {
            let sentence = "unknown effect \(name.answer(asUnknownOf: Kind.allCases.map(\.rawValue), "effects"))"
            throw DecodingError.dataCorruptedError(forKey: .name, in: container, debugDescription: sentence)
        }
        try decoder.requireKeys(["name"] + Self.keys(kind).map(\.rawValue))
        switch kind {
        case .reject: self = .reject(try Self.rejection(container))
        case .delay: self = .delay(try container.milliseconds(.milliseconds))
        case .ignore: self = .ignore
        case .shutDown: self = .shutDown
        case .closeBefore: self = .closeBefore
        case .closeAfter: self = .closeAfter
        case .goAway: self = .goAway(PushReason(text: try container.decode(String.self, forKey: .reason)))
        case .goAwayFirst: self = .goAwayFirst(try Self.reason(container) ?? .shutdown)
        case .refuseStream: self = .refuseStream
        case .resetStream: self = .resetStream(code: try container.decode(UInt32.self, forKey: .code))
        case .limitStreams: self = .limitStreams(try container.decode(Int.self, forKey: .count))
        case .refuseHandshake: self = .refuseHandshake
        case .refuseConnection: self = .refuseConnection
        case .slowReading: self = .slowReading(try Self.pace(container))
        case .errorResponse: self = .errorResponse
        case .slowWriting: self = .slowWriting(try Self.pace(container))
        case .cutList: self = .cutList(byteCount: try container.decode(Int.self, forKey: .byteCount))
        }
    }

    private static func reason(_ container: KeyedDecodingContainer<Key>) throws -> PushReason? {
        try container.decodeIfPresent(String.self, forKey: .reason).map { PushReason(text: $0) }
    }

    private static func rejection(_ container: KeyedDecodingContainer<Key>) throws -> Rejection {
        if let number = try container.decodeIfPresent(Int.self, forKey: .status) {
            guard let status = UInt8(exactly: number) else {
                let sentence =
                    "status must be from 0 to 255, for the binary gateway; for HTTP/2, use reason and httpStatus"
                throw DecodingError.dataCorruptedError(forKey: .status, in: container, debugDescription: sentence)
            }
            if let key = [Key.reason, .httpStatus, .timestamp].first(where: { container.contains($0) }) {
                let sentence = "\(key.stringValue) is for HTTP/2, status is for the binary gateway; specify one of them"
                throw DecodingError.dataCorruptedError(forKey: key, in: container, debugDescription: sentence)
            }
            return .binary(ErrorResponse.Status(rawValue: status))
        }
        guard let reason = try Self.reason(container) else {
            let sentence = "reject requires status for the binary gateway or reason for HTTP/2"
            throw DecodingError.dataCorruptedError(forKey: .name, in: container, debugDescription: sentence)
        }
        guard let status = try container.decodeIfPresent(Int.self, forKey: .httpStatus) ?? reason.status else {
            let sentence = "unknown reason \(reason.text.prefix(64)); an undocumented reason requires httpStatus"
            throw DecodingError.dataCorruptedError(forKey: .reason, in: container, debugDescription: sentence)
        }
        let timestamp = try container.decodeIfPresent(UInt64.self, forKey: .timestamp)
        return .http2(PushRejection(status: status, reason: reason, timestampNumber: timestamp))
    }

    private static func pace(_ container: KeyedDecodingContainer<Key>) throws -> TransferPace {
        TransferPace(
            byteCount: try container.decode(Int.self, forKey: .byteCount),
            interval: try container.milliseconds(.milliseconds)
        )
    }

    /// Encodes an effect.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(self.name, forKey: .name)
        switch self {
        case .reject(.binary(let status)): try container.encode(status.rawValue, forKey: .status)
        case .reject(.http2(let rejection)):
            try container.encode(rejection.reason.text, forKey: .reason)
            try container.encode(rejection.status, forKey: .httpStatus)
            try container.encodeIfPresent(rejection.timestampNumber, forKey: .timestamp)
        case .delay(let duration): try container.encode(duration.milliseconds, forKey: .milliseconds)
        case .goAway(let reason), .goAwayFirst(let reason): try container.encode(reason.text, forKey: .reason)
        case .resetStream(let code): try container.encode(code, forKey: .code)
        case .limitStreams(let count): try container.encode(count, forKey: .count)
        case .slowReading(let pace), .slowWriting(let pace):
            try container.encode(pace.byteCount, forKey: .byteCount)
            try container.encode(pace.interval.milliseconds, forKey: .milliseconds)
        case .cutList(let byteCount): try container.encode(byteCount, forKey: .byteCount)
        case .ignore, .shutDown, .closeBefore, .closeAfter, .refuseStream, .refuseHandshake, .refuseConnection,
            .errorResponse:
            break
        }
    }
}

/// The file format of a report, such as `{"delayMilliseconds": 200, "ending": "reset"}`.
extension FaultReport: Codable {
    private enum Key: String, CodingKey, CaseIterable {
        case delayMilliseconds, identifier, isLost, isSplit, isCoalesced, ending
    }

    /// Decodes a report.
    ///
    /// Missing keys have default values.
    public init(from decoder: any Decoder) throws {
        try decoder.requireKeys(Key.allCases.map(\.rawValue))
        let container = try decoder.container(keyedBy: Key.self)
        let hasDelay = container.contains(.delayMilliseconds)
        let identifier = try container.decodeIfPresent(UInt32.self, forKey: .identifier)
        self.init(
            delay: hasDelay ? try container.milliseconds(.delayMilliseconds) : .zero,
            identifier: identifier.map { $0 == 0 ? .zero : .fixed($0) } ?? .correct,
            isLost: try container.decodeIfPresent(Bool.self, forKey: .isLost) ?? false,
            isSplit: try container.decodeIfPresent(Bool.self, forKey: .isSplit) ?? false,
            isCoalesced: try container.decodeIfPresent(Bool.self, forKey: .isCoalesced) ?? false,
            ending: try container.wordIfPresent(.ending) ?? .orderly
        )
    }

    /// Encodes a report without default values.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        if self.delay != .zero { try container.encode(self.delay.milliseconds, forKey: .delayMilliseconds) }
        switch self.identifier {
        case .correct: break
        case .zero: try container.encode(0, forKey: .identifier)
        case .fixed(let identifier): try container.encode(identifier, forKey: .identifier)
        }
        if self.isLost { try container.encode(true, forKey: .isLost) }
        if self.isSplit { try container.encode(true, forKey: .isSplit) }
        if self.isCoalesced { try container.encode(true, forKey: .isCoalesced) }
        if self.ending != .orderly { try container.encode(self.ending, forKey: .ending) }
    }
}

extension Duration {
    /// Of whole nanoseconds, as they are decoded.
    fileprivate var milliseconds: Double {
        let (seconds, attoseconds) = self.components
        return (Double(seconds) * 1e9 + Double(attoseconds / 1_000_000_000)) / 1e6
    }
}

/// A key of any name, which finds misspelled ones.
private struct AnyKey: CodingKey {
    let stringValue: String
    let intValue: Int? = nil

    init(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

extension Decoder {
    /// Rejects unknown keys and keys without a value, so that nothing is silently ignored.
    ///
    /// Without a value, a condition would count as absent, and the fault would occur for every notification.
    fileprivate func requireKeys(_ allowed: [String]) throws {
        let container = try self.container(keyedBy: AnyKey.self)
        for key in container.allKeys {
            let problem =
                if !allowed.contains(key.stringValue) {
                    "unknown key \(key.stringValue.answer(asUnknownOf: allowed, "keys"))"
                } else if try container.decodeNil(forKey: key) {
                    "the key has no value; specify one, or remove the key"
                } else {
                    String?.none
                }
            guard let problem else { continue }
            throw DecodingError.dataCorruptedError(forKey: key, in: container, debugDescription: problem)
        }
    }
}

extension KeyedDecodingContainer {
    /// Decodes one of several words.
    fileprivate func wordIfPresent<Word: RawRepresentable<String> & CaseIterable>(_ key: Key) throws -> Word? {
        guard let text = try self.decodeIfPresent(String.self, forKey: key) else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            let sentence = "invalid \(key.stringValue); valid values: \(words)"
            throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: sentence)
        }
        return word
    }

    /// Decodes a duration of at most a day.
    fileprivate func milliseconds(_ key: Key) throws -> Duration {
        let count = try self.decode(Double.self, forKey: key)
        guard (-86_400_000...86_400_000).contains(count) else {
            let sentence = "expected at most 86400000 milliseconds (one day)"
            throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: sentence)
        }
        // From a number with a fraction, `Duration` is not exact.
        return .nanoseconds(Int64((count * 1e6).rounded()))
    }
}
