// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// When in the life of a connection a fault is looked for.
enum FaultStage: Hashable, Sendable, CaseIterable {
    /// When the connection is there.
    case accept
    /// Behind the handshake.
    case admission
    /// Behind the handshake over HTTP/2, in place of what comes first.
    case settings
    /// Behind the handshake: how the connection is read.
    case reading
    /// Behind the handshake: how a list is written.
    case writing
    /// Behind the handshake: where a list ends.
    case list
    /// At a notification.
    case notification
    /// At the end of a connection that no fault has ended.
    case errorResponse
}

extension Fault {
    /// The parts of a report that need not be as the protocol asks for.
    private enum ReportPart: CaseIterable {
        case delay
        case response
        case ending
    }

    /// The listeners at which it happens.
    ///
    /// - Parameter index: its place in the configuration.
    /// - Returns: one or more.
    /// - Throws: ``SimulatorError/fault(index:reason:)`` where there is none.
    func listeners(index: Int) throws(SimulatorError) -> [SimulatorListener] {
        if let reason = self.invalidValue ?? self.invalidTrigger { throw .fault(index: index, reason: reason) }
        let possible = SimulatorListener.allCases.filter(self.effect.listeners.contains)
        let chosen = possible.filter { self.listener ?? $0 == $0 }
        guard !chosen.isEmpty else {
            let names = possible.map(\.description).joined(separator: ", ")
            let reason = "\(self.listener?.description ?? "the simulator") has no \(self.effect.name), only \(names)"
            throw .fault(index: index, reason: reason)
        }
        let reported = chosen.filter { self.changedParts.isSubset(of: self.parts(at: $0)) }
        guard !reported.isEmpty else {
            let names = chosen.map(\.description).joined(separator: ", ")
            let reason = "\(self.effect.name) at \(names) is not reported in that way"
            throw .fault(index: index, reason: reason)
        }
        return reported
    }

    /// Why it can happen nowhere; `nil` where it can.
    package var problem: String? {
        do throws(SimulatorError) { _ = try self.listeners(index: 0) } catch {
            if case .fault(_, let reason) = error { return reason }
        }
        return nil
    }

    private var invalidValue: String? {
        if self.report.delay < .zero { return "a delay is not negative" }
        if self.report.isSplit && self.report.isCoalesced { return "a response is split or coalesced, not both" }
        if let count = self.occurrenceCountMax, count < 0 { return "a number of occurrences is not negative" }
        switch self.effect {
        case .reject(.http2(let rejection)) where !(400...599).contains(rejection.status):
            return "a status of HTTP that refuses is from 400 to 599"
        case .delay(let duration) where duration < .zero: return "a delay is not negative"
        case .limitStreams(let count) where !(0...Int(UInt32.max)).contains(count):
            return "a number of streams is from 0 to 4294967295"
        case .cutList(let count) where count < 0: return "a number of bytes is not negative"
        case .slowReading(let pace) where pace.byteCount > TransferPace.byteCountMax,
            .slowWriting(let pace) where pace.byteCount > TransferPace.byteCountMax:
            return "a pace has at most \(TransferPace.byteCountMax) bytes at a time"
        default: return nil
        }
    }

    private var invalidTrigger: String? {
        switch self.trigger {
        case .notification(0), .notificationOverall(0), .connection(0): return "numbers begin with 1"
        case .random(let probability, _) where !(0...1).contains(probability): return "a probability is from 0 to 1"
        case .token(let prefix):
            let countMax = 2 * WireLimits.tokenByteCountMax
            guard (1...countMax).contains(prefix.utf8.count), prefix.utf8.allSatisfy({ Hexadecimal.value($0) < 16 })
            else { return "the first digits of a device token are 1 to \(countMax) hexadecimal digits" }
        case .always, .notification, .notificationOverall, .connection, .random: break
        }
        switch self.trigger {
        case .notification, .notificationOverall, .token:
            return self.effect.stage == .notification
                ? nil : "\(self.effect.name) happens to a connection, not at a notification"
        case .always, .connection, .random: return nil
        }
    }

    /// The parts of its report that are not as the protocol asks for.
    private var changedParts: Set<ReportPart> {
        var parts: Set<ReportPart> = []
        if self.report.delay != .zero { parts.insert(.delay) }
        let isResponseChanged =
            self.report.identifier != .correct || self.report.isLost || self.report.isSplit || self.report.isCoalesced
        if isResponseChanged { parts.insert(.response) }
        if self.report.ending != .orderly { parts.insert(.ending) }
        return parts
    }

    /// The parts of a report that its effect has at a listener.
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
    /// The listeners that can have it.
    var listeners: Set<SimulatorListener> {
        switch self {
        case .reject(.binary), .errorResponse: [.binary]
        case .reject, .goAway, .goAwayFirst, .refuseStream, .resetStream, .limitStreams: [.http2]
        case .delay, .ignore, .shutDown, .closeBefore, .closeAfter, .slowReading: [.binary, .http2]
        case .refuseHandshake, .refuseConnection: [.binary, .feedback, .http2]
        case .slowWriting, .cutList: [.feedback]
        }
    }

    /// When it is looked for.
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

    /// Its name, as in source code and in JSON.
    package var name: String {
        switch self {
        case .reject: "reject"
        case .delay: "delay"
        case .ignore: "ignore"
        case .shutDown: "shutDown"
        case .closeBefore: "closeBefore"
        case .closeAfter: "closeAfter"
        case .goAway: "goAway"
        case .refuseStream: "refuseStream"
        case .resetStream: "resetStream"
        case .limitStreams: "limitStreams"
        case .refuseHandshake: "refuseHandshake"
        case .refuseConnection: "refuseConnection"
        case .goAwayFirst: "goAwayFirst"
        case .slowReading: "slowReading"
        case .errorResponse: "errorResponse"
        case .slowWriting: "slowWriting"
        case .cutList: "cutList"
        }
    }
}

extension Fault {
    /// Whether the notification at which it happens is in the record before anything else happens on its connection.
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
