// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The stage of a connection at which a fault is checked.
enum FaultStage: Hashable, Sendable, CaseIterable {
    /// When the connection is accepted.
    case accept
    /// After the handshake.
    case admission
    /// After the handshake over HTTP/2, instead of the first frame.
    case settings
    /// After the handshake: how the connection is read.
    case reading
    /// After the handshake: how a list is written.
    case writing
    /// After the handshake: where a list ends.
    case list
    /// At a notification.
    case notification
    /// At the end of a connection that no fault has ended.
    case errorResponse
}

extension Fault {
    /// The parts of a report that can deviate from the protocol.
    private enum ReportPart: CaseIterable {
        case delay
        case response
        case ending
    }

    /// The listeners at which the fault occurs, at least one if it is valid: those that support its effect and report.
    var listeners: [SimulatorListener] {
        self.chosenListeners.filter { self.changedParts.isSubset(of: self.parts(at: $0)) }
    }

    private var chosenListeners: [SimulatorListener] {
        self.effect.listeners.filter { self.listener ?? $0 == $0 }
    }

    /// Returns why the fault is invalid; `nil` if it is valid.
    package var problem: String? {
        if let reason = self.invalidValue ?? self.invalidTrigger { return reason }
        func names(_ listeners: [SimulatorListener]) -> String {
            listeners.map(\.description).joined(separator: ", ")
        }
        if let listener = self.listener, self.chosenListeners.isEmpty {
            return "\(self.effect.name) is not supported at \(listener), only at \(names(self.effect.listeners))"
        }
        guard self.listeners.isEmpty else { return nil }
        return "\(self.effect.name) at \(names(self.chosenListeners)) does not support this report"
    }

    private var invalidValue: String? {
        if self.report.delay < .zero { return "the delay must not be negative" }
        if self.report.isSplit && self.report.isCoalesced { return "isSplit and isCoalesced cannot be combined" }
        if let count = self.occurrenceCountMax, count < 0 { return "occurrenceCountMax must not be negative" }
        switch self.effect {
        case .reject(.http2(let rejection)) where !(400...599).contains(rejection.status):
            return "httpStatus must be from 400 to 599"
        case .delay(let duration) where duration < .zero: return "the delay must not be negative"
        case .limitStreams(let count) where !(0...Int(UInt32.max)).contains(count):
            return "count must be from 0 to 4294967295"
        case .cutList(let count) where count < 0: return "byteCount must not be negative"
        case .slowReading(let pace) where pace.byteCount > TransferPace.byteCountMax,
            .slowWriting(let pace) where pace.byteCount > TransferPace.byteCountMax:
            return "byteCount must be at most \(TransferPace.byteCountMax)"
        default: return nil
        }
    }

    private var invalidTrigger: String? {
        switch self.trigger {
        case .notification(0), .notificationOverall(0), .connection(0): return "the number must be at least 1"
        case .random(let probability, _) where !(0...1).contains(probability):
            return "the probability must be from 0 to 1"
        case .token(let prefix):
            return Self.problem(ofPrefix: prefix) ?? self.problemOfStage
        case .matching(let conditions):
            if conditions.count == 0 { return "count must be at least 1" }
            if conditions.text == "" { return "text must not be empty" }
            if conditions.header?.name == "" { return "the name of the header must not be empty" }
            return conditions.tokenPrefix.flatMap(Self.problem(ofPrefix:)) ?? self.problemOfStage
        case .notification, .notificationOverall: return self.problemOfStage
        case .always, .connection, .random: return nil
        }
    }

    private static func problem(ofPrefix prefix: String) -> String? {
        let countMax = 2 * WireLimits.tokenByteCountMax
        let isValid =
            (1...countMax).contains(prefix.utf8.count) && prefix.utf8.allSatisfy { Hexadecimal.value($0) < 16 }
        return isValid ? nil : "the token prefix must have 1 to \(countMax) hexadecimal digits"
    }

    /// What is wrong with a trigger that needs a notification.
    private var problemOfStage: String? {
        self.effect.stage == .notification
            ? nil : "\(self.effect.name) affects connections and cannot be triggered by a notification or token"
    }

    /// Why the fault can never occur at these listeners, apart from other faults; `nil` if it can.
    func impossibility(at listeners: [SimulatorListener]) -> String? {
        if self.occurrenceCountMax == 0 { return "it never occurs: occurrenceCountMax is 0" }
        switch self.trigger {
        case .random(probability: 0, seed: _): return "it never occurs: the probability is 0"
        case .matching(let conditions) where conditions.header != nil && !listeners.contains(.http2):
            return "it never occurs: notifications of the binary protocol have no headers"
        case .always, .notification, .notificationOverall, .connection, .token, .random, .matching: return nil
        }
    }

    /// Whether another fault, which is checked later at some of the same listeners, never gets its turn.
    func precludes(_ later: Fault) -> Bool {
        guard self.occurrenceCountMax == nil, self.effect.stage == later.effect.stage else { return false }
        switch self.trigger {
        case .always, .random(probability: 1, seed: _): return true
        case .token(let prefix):
            let digits: String? =
                switch later.trigger {
                case .token(let other): other
                case .matching(let conditions): conditions.tokenPrefix
                default: nil
                }
            return digits?.lowercased().hasPrefix(prefix.lowercased()) ?? false
        case .matching(let conditions): return conditions.count == nil && later.trigger == self.trigger
        case .notification, .notificationOverall, .connection, .random: return false
        }
    }

    /// The parts of the report that deviate from the protocol.
    private var changedParts: Set<ReportPart> {
        var parts: Set<ReportPart> = []
        if self.report.delay != .zero { parts.insert(.delay) }
        let isResponseChanged =
            self.report.identifier != .correct || self.report.isLost || self.report.isSplit || self.report.isCoalesced
        if isResponseChanged { parts.insert(.response) }
        if self.report.ending != .orderly { parts.insert(.ending) }
        return parts
    }

    /// The parts of a report that the effect supports at a listener.
    private func parts(at listener: SimulatorListener) -> Set<ReportPart> {
        switch (self.effect, listener) {
        case (.reject, .binary), (.shutDown, .binary), (.errorResponse, _): [.delay, .response, .ending]
        case (.closeBefore, _), (.closeAfter, _), (.refuseConnection, _), (.goAwayFirst, _): [.delay, .ending]
        case (.cutList, _): [.ending]
        case (.reject, _), (.shutDown, _), (.goAway, _), (.refuseStream, _), (.resetStream, _): [.delay]
        case (.delay, _), (.ignore, _), (.limitStreams, _), (.refuseHandshake, _), (.slowReading, _),
            (.slowWriting, _):
            []
        }
    }
}

extension Fault.Effect {
    /// The listeners that support the effect.
    var listeners: [SimulatorListener] {
        switch self {
        case .reject(.binary), .errorResponse: [.binary]
        case .reject, .goAway, .goAwayFirst, .refuseStream, .resetStream, .limitStreams: [.http2]
        case .delay, .ignore, .shutDown, .closeBefore, .closeAfter, .slowReading: [.binary, .http2]
        case .refuseHandshake, .refuseConnection: [.binary, .feedback, .http2]
        case .slowWriting, .cutList: [.feedback]
        }
    }

    /// The stage at which the effect is checked.
    var stage: FaultStage {
        switch self {
        case .reject, .delay, .ignore, .shutDown, .closeBefore, .closeAfter, .goAway, .refuseStream, .resetStream,
            .limitStreams:
            .notification
        case .refuseHandshake: .accept
        case .refuseConnection: .admission
        case .goAwayFirst: .settings
        case .slowReading: .reading
        case .errorResponse: .errorResponse
        case .slowWriting: .writing
        case .cutList: .list
        }
    }

    /// The name of the effect, as in source code and in JSON.
    package var name: String { self.kind.rawValue }

    /// The effect without its values.
    var kind: Kind {
        switch self {
        case .reject: .reject
        case .delay: .delay
        case .ignore: .ignore
        case .shutDown: .shutDown
        case .closeBefore: .closeBefore
        case .closeAfter: .closeAfter
        case .goAway: .goAway
        case .refuseStream: .refuseStream
        case .resetStream: .resetStream
        case .limitStreams: .limitStreams
        case .refuseHandshake: .refuseHandshake
        case .refuseConnection: .refuseConnection
        case .goAwayFirst: .goAwayFirst
        case .slowReading: .slowReading
        case .errorResponse: .errorResponse
        case .slowWriting: .slowWriting
        case .cutList: .cutList
        }
    }

    /// An effect without its values, by its name.
    enum Kind: String, CaseIterable {
        case reject, delay, ignore, shutDown, closeBefore, closeAfter, goAway, refuseStream, resetStream, limitStreams
        case refuseHandshake, refuseConnection, goAwayFirst, slowReading, errorResponse, slowWriting, cutList
    }
}

extension Fault {
    /// Whether the notification of an occurrence is recorded before anything else happens on its connection.
    func isRecordedAtOnce(at listener: SimulatorListener) -> Bool {
        switch self.effect {
        case .reject: listener == .binary || self.report.delay == .zero
        case .shutDown, .closeAfter, .limitStreams: true
        case .delay, .ignore, .closeBefore, .goAway, .refuseStream, .resetStream, .refuseHandshake, .refuseConnection,
            .goAwayFirst, .slowReading, .errorResponse, .slowWriting, .cutList:
            false
        }
    }
}
