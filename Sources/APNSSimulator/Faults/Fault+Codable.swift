// SPDX-License-Identifier: Apache-2.0

import APNSWire

// The form of faults in JSON and YAML. It is written by hand, since what the compiler makes of enumerations is not for
// people to write.

/// A fault as a file has it, such as `{"at": {"notification": 5}, "effect": {"name": "reject", "status": 8}}`.
extension Fault: Codable {
    private enum Key: String, CodingKey {
        case trigger = "at"
        case effect, listener, report, occurrenceCountMax
    }

    /// Reads a fault; what is not there is as by default, and a fault without a trigger happens always.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        self.init(
            at: try container.decodeIfPresent(Trigger.self, forKey: .trigger) ?? .always,
            try container.decode(Effect.self, forKey: .effect),
            listener: try container.decodeIfPresent(SimulatorListener.self, forKey: .listener),
            report: try container.decodeIfPresent(FaultReport.self, forKey: .report) ?? FaultReport(),
            occurrenceCountMax: try container.decodeIfPresent(Int.self, forKey: .occurrenceCountMax)
        )
    }

    /// Writes a fault, without what is as by default.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        if self.trigger != .always { try container.encode(self.trigger, forKey: .trigger) }
        try container.encode(self.effect, forKey: .effect)
        try container.encodeIfPresent(self.listener, forKey: .listener)
        if self.report != FaultReport() { try container.encode(self.report, forKey: .report) }
        try container.encodeIfPresent(self.occurrenceCountMax, forKey: .occurrenceCountMax)
    }
}

/// A trigger as a file has it: an object with one condition, or without any for always.
extension Fault.Trigger: Codable {
    private enum Key: String, CodingKey, CaseIterable {
        case notification, notificationOverall, connection, token, probability, seed
    }

    /// Reads a trigger.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let conditions = container.allKeys.filter { $0 != .seed }
        guard conditions.count <= 1 else {
            let context = DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "several conditions")
            throw DecodingError.dataCorrupted(context)
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
        case .seed, nil: self = .always
        }
    }

    /// Writes a trigger.
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
        }
    }
}

/// An effect as a file has it: its name as in source code, and its values.
extension Fault.Effect: Codable {
    private enum Key: String, CodingKey {
        case name, status, httpStatus, reason, timestamp, milliseconds, code, count, byteCount
    }

    /// Reads an effect.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let name = try container.decode(String.self, forKey: .name)
        switch name {
        case "reject": self = .reject(try Self.rejection(container))
        case "delay": self = .delay(.milliseconds(try container.decode(Double.self, forKey: .milliseconds)))
        case "ignore": self = .ignore
        case "shutDown": self = .shutDown
        case "closeBefore": self = .closeBefore
        case "closeAfter": self = .closeAfter
        case "goAway": self = .goAway(PushReason(text: try container.decode(String.self, forKey: .reason)))
        case "refuseStream": self = .refuseStream
        case "resetStream": self = .resetStream(code: try container.decode(UInt32.self, forKey: .code))
        case "limitStreams": self = .limitStreams(try container.decode(Int.self, forKey: .count))
        case "refuseHandshake": self = .refuseHandshake
        case "refuseConnection": self = .refuseConnection
        case "slowReading": self = .slowReading(try Self.pace(container))
        case "errorResponse": self = .errorResponse
        case "slowWriting": self = .slowWriting(try Self.pace(container))
        case "cutList": self = .cutList(byteCount: try container.decode(Int.self, forKey: .byteCount))
        default:
            let sentence = "there is no effect \(name)"
            throw DecodingError.dataCorruptedError(forKey: .name, in: container, debugDescription: sentence)
        }
    }

    private static func rejection(_ container: KeyedDecodingContainer<Key>) throws -> Rejection {
        if let status = try container.decodeIfPresent(UInt8.self, forKey: .status) {
            return .binary(ErrorResponse.Status(rawValue: status))
        }
        let reason = PushReason(text: try container.decode(String.self, forKey: .reason))
        let status = try container.decodeIfPresent(Int.self, forKey: .httpStatus) ?? reason.status ?? 400
        let timestamp = try container.decodeIfPresent(UInt64.self, forKey: .timestamp)
        return .http2(PushRejection(status: status, reason: reason, timestamp: timestamp))
    }

    private static func pace(_ container: KeyedDecodingContainer<Key>) throws -> TransferPace {
        TransferPace(
            byteCount: try container.decode(Int.self, forKey: .byteCount),
            interval: .milliseconds(try container.decode(Double.self, forKey: .milliseconds))
        )
    }

    /// Writes an effect.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(self.name, forKey: .name)
        switch self {
        case .reject(.binary(let status)): try container.encode(status.rawValue, forKey: .status)
        case .reject(.http2(let rejection)):
            try container.encode(rejection.reason.text, forKey: .reason)
            try container.encode(rejection.status, forKey: .httpStatus)
            try container.encodeIfPresent(rejection.timestamp, forKey: .timestamp)
        case .delay(let duration): try container.encode(duration.milliseconds, forKey: .milliseconds)
        case .goAway(let reason): try container.encode(reason.text, forKey: .reason)
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

/// A report as a file has it, such as `{"delayMilliseconds": 200, "ending": "reset"}`.
extension FaultReport: Codable {
    private enum Key: String, CodingKey {
        case delayMilliseconds, identifier, isLost, isSplit, ending
    }

    /// Reads a report; what is not there is as by default.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let delay = try container.decodeIfPresent(Double.self, forKey: .delayMilliseconds)
        let identifier = try container.decodeIfPresent(UInt32.self, forKey: .identifier)
        self.init(
            delay: .milliseconds(delay ?? 0),
            identifier: identifier.map { $0 == 0 ? .zero : .fixed($0) } ?? .correct,
            isLost: try container.decodeIfPresent(Bool.self, forKey: .isLost) ?? false,
            isSplit: try container.decodeIfPresent(Bool.self, forKey: .isSplit) ?? false,
            ending: try container.decodeIfPresent(Ending.self, forKey: .ending) ?? .orderly
        )
    }

    /// Writes a report, without what is as by default.
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
        if self.ending != .orderly { try container.encode(self.ending, forKey: .ending) }
    }
}

extension Duration {
    fileprivate var milliseconds: Double { self / .milliseconds(1) }
}
