// SPDX-License-Identifier: Apache-2.0

import DequeModule
public import APNSWire

/// The gateway's state machine of one provider connection: it decides which messages are forwarded, and what is
/// reported, when, and in which order.
///
/// Success is silent, so a provider infers everything from the single response and its position: all messages before
/// the one it names were accepted, all after it were discarded. Therefore only the lowest failing message is reported,
/// and only after all messages before it are settled, in whatever order their outcomes arrive. The outcomes of messages
/// that were forwarded together with an earlier one that fails are ignored, since the provider sends them again.
///
/// - SeeAlso: Binary Provider API, "error-response packet".
public struct GatewaySession: ~Copyable {
    /// The default limit for messages without an outcome.
    ///
    /// HTTP/2 servers have similar defaults for concurrent streams, which a bridge needs.
    public static let inFlightCountMaxDefault = 1000

    /// The default limit for bytes that are read and discarded after the end: more than the socket buffers of both ends
    /// hold.
    public static let drainByteCountMaxDefault = 64 * 1024 * 1024

    /// Why the connection ends.
    private enum Reason {
        /// A message is faulty; it is reported to the provider unless it was in command 0.
        case fault(ErrorResponse, isReported: Bool)
        /// A message was not accepted, or nothing after it is; reported as a shutdown after the last accepted message.
        case shutdown
        /// The gateway stops; reported in the same way if anything was discarded.
        case stop
        /// The connection was idle for too long.
        case idle
        /// Bytes are no message, which is not reported.
        case silence
        /// The provider has closed its side, and everything before is accepted.
        case complete
        /// It is unknown whether a message was accepted, for which there is no status.
        case inDoubt
    }

    /// A pending end that waits for the messages before it.
    private struct End {
        var reason: Reason
        /// The first message that is not accepted.
        var number: UInt64
        /// Its identifier, if it was received and has one.
        var identifier: UInt32?
        var isInputClosed: Bool
    }

    private enum State {
        case open(isReading: Bool)
        case ending(End)
        case draining(remainingByteCount: Int)
        case closed
    }

    /// The longest command-2 frame, in bytes of its items, that is skipped with ``RejectionPolicy/ignore``.
    ///
    /// The limit is above two fields with 16-bit lengths in the other commands. A longer frame is not a notification
    /// that a provider meant to send, and skipping it could discard the messages after it.
    static let skippedFrameByteCountMax: UInt32 = 256 * 1024

    /// How to handle notifications that are refused for their own fault; by default they are reported.
    public var rejectionPolicy = RejectionPolicy.report

    private let rules: GatewayRules
    private let inFlightCountMax: Int
    private let drainByteCountMax: Int
    private var window = GatewayWindow()
    private var identifiers = ReceivedIdentifiers()
    /// The number of messages received, with those discarded.
    private var seenCount: UInt64 = 0
    /// The number of the first message since the provider last began to count its identifiers.
    private var runNumber: UInt64 = 1
    /// The first message that was discarded without being processed.
    private var firstDiscarded: (number: UInt64, identifier: UInt32?)?
    private var state: State = .open(isReading: true)
    /// The number of messages in flight below which reading resumes.
    private var resumeCount = 0

    /// Creates a session for a connection on which nothing has arrived.
    ///
    /// - Parameters:
    ///   - rules: the checks before a message is forwarded.
    ///   - inFlightCountMax: the maximum number of messages without an outcome, at least 1; with 1, a message is
    ///     forwarded only after all earlier ones are settled. By default 1000.
    ///   - drainByteCountMax: the maximum number of bytes to discard after the end; by default 64 MiB.
    public init(
        rules: GatewayRules = GatewayRules(),
        inFlightCountMax: Int = GatewaySession.inFlightCountMaxDefault,
        drainByteCountMax: Int = GatewaySession.drainByteCountMaxDefault
    ) {
        self.rules = rules
        self.inFlightCountMax = max(1, inFlightCountMax)
        self.drainByteCountMax = max(0, drainByteCountMax)
    }

    /// The number of messages accepted without a gap.
    public var acceptedCount: UInt64 { self.window.firstNumber - 1 }

    /// The number of messages that were forwarded but are not settled.
    public var inFlightCount: Int { self.window.count }
}

// MARK: - Input

extension GatewaySession {
    /// What to do with a received message.
    @frozen
    public enum OnMessage: Hashable, Sendable {
        /// Forward it under this number; then call ``GatewaySession/settle(_:_:isLast:)`` or
        /// ``GatewaySession/wait(for:isFull:)``.
        case forward(UInt64)
        /// Discard it and all that follow; the end waits for the messages before it.
        case awaitEarlier
        /// Discard it and all that follow, and end the connection.
        case finish(GatewayEnding)
        /// Skip it, and continue with the next; it is refused with this status, which is not reported to the provider.
        case skip(ErrorResponse.Status)
        /// Discard it; the end is already decided.
        case discard
    }

    /// Processes a received message.
    ///
    /// - Parameters:
    ///   - message: the positions of its parts.
    ///   - isPayloadObject: whether its payload is a JSON object; `true` if that is not checked.
    /// - Returns: what to do with it.
    /// - Precondition: reading is not stopped.
    public mutating func receive(_ message: borrowing FrameLayout, isPayloadObject: Bool = true) -> OnMessage {
        self.record(message.identifier)
        guard case .open(let isReading) = self.state else { return .discard }
        precondition(isReading, "No message may be received while reading is stopped.")
        if let status = self.rules.fault(of: message, isPayloadObject: isPayloadObject) {
            // An empty message requests an answer.
            let isProbe = message.tokenByteCount + message.payloadByteCount == 0
            if self.rejectionPolicy == .ignore, !isProbe { return .skip(status) }
            return self.fail(status, command: message.command, identifier: message.identifier)
        }
        let isSimple = message.command == .simple
        return .forward(
            self.window.append(GatewayWindow.Message(identifier: message.identifier, isSimple: isSimple))
        )
    }

    /// Processes bytes that are not a valid message.
    ///
    /// - Parameters:
    ///   - error: what is wrong with them.
    ///   - command: the command at their start; `nil` if it is unknown.
    /// - Returns: what to do; never to forward a message.
    public mutating func receive(_ error: WireError, command: Command?) -> OnMessage {
        guard case .open = self.state else { return .discard }
        if self.rejectionPolicy == .ignore, let status = Self.skippedStatus(error) { return .skip(status) }
        return self.fail(error.status, command: command, identifier: error.identifier)
    }

    /// The status for a message that can be skipped, because its end is known.
    private static func skippedStatus(_ error: WireError) -> ErrorResponse.Status? {
        if case .frameTooLong(let announced, _) = error, announced > Self.skippedFrameByteCountMax { return nil }
        return error.status
    }

    private mutating func fail(
        _ status: ErrorResponse.Status?,
        command: Command?,
        identifier: UInt32?
    ) -> OnMessage {
        var reason = Reason.silence
        if let status, let command {
            let response = ErrorResponse(status: status, identifier: identifier ?? 0)
            reason = .fault(response, isReported: command != .simple)
        }
        let end = End(reason: reason, number: self.window.nextNumber, isInputClosed: false)
        return self.conclude(end).map { .finish($0) } ?? .awaitEarlier
    }

    /// Ends the connection now, or after all messages in flight are settled.
    private mutating func conclude(_ end: End) -> GatewayEnding? {
        guard !self.window.isEmpty, !self.isImmediate(end.reason) else { return self.finish(end) }
        self.state = .ending(end)
        return nil
    }

    private mutating func finish(_ end: End) -> GatewayEnding {
        var ending = GatewayEnding(response: nil, number: end.number, closing: .reset)
        switch end.reason {
        case .fault(let response, let isReported):
            ending.status = response.status
            if isReported { (ending.response, ending.closing) = (response, .drain) }
        case .shutdown, .stop:
            guard self.rejectionPolicy == .report else { break }
            if case .stop = end.reason { ending.isStop = true }
            if let response = self.shutdownResponse(end) { (ending.response, ending.closing) = (response, .hold) }
        case .complete: ending.closing = .orderly
        // A provider would take an orderly end for the acceptance of everything, also of what is on its way.
        case .idle, .silence, .inDoubt: break
        }
        if end.isInputClosed, ending.response != nil { ending.closing = .orderly }
        self.state = ending.closing.readsOn ? .draining(remainingByteCount: self.drainByteCountMax) : .closed
        return ending
    }

    /// The response after which the provider sends everything again from the first message that was not accepted.
    ///
    /// That is status 10 with the last accepted message. A provider takes everything up to the named message for
    /// accepted, so there is none if its identifier could also mean another message, or is one that the provider has
    /// forgotten. Then, and if nothing was accepted, the first message that was not accepted is named with status 1: it
    /// counts as failed, and the rest is sent again. With status 10 there is no identifier that all providers
    /// understand: 0 is "unknown" for some and a message for others, and one that no message had makes some take
    /// everything for accepted.
    private func shutdownResponse(_ end: End) -> ErrorResponse? {
        if self.acceptedCount >= self.runNumber, let identifier = self.window.lastAcceptedIdentifier, identifier != 0,
            self.identifiers.hasOne(identifier)
        {
            return ErrorResponse(status: .shutdown, identifier: identifier)
        }
        guard end.number >= self.runNumber, let identifier = end.identifier, self.identifiers.hasOneInRun(identifier)
        else { return nil }
        return ErrorResponse(status: .processingError, identifier: identifier)
    }
}

// MARK: - Outcomes

extension GatewaySession {
    /// What to do while a message has no outcome.
    @frozen
    public enum OnWait: Hashable, Sendable {
        /// Continue.
        case none
        /// Stop reading until further notice.
        case stopReading
    }

    /// Records that the outcome of the message just forwarded arrives later.
    ///
    /// - Parameters:
    ///   - number: the message.
    ///   - isFull: whether there is no capacity for messages of any connection; reading then resumes after half of this
    ///     connection's messages in flight are settled.
    /// - Returns: what to do until then.
    public mutating func wait(for number: UInt64, isFull: Bool = false) -> OnWait {
        guard case .open = self.state, isFull || self.window.count >= self.inFlightCountMax else { return .none }
        self.stopReading()
        return .stopReading
    }

    private mutating func stopReading() {
        self.state = .open(isReading: false)
        self.resumeCount = self.window.count / 2
    }

    /// What to do about an outcome.
    @frozen
    public enum OnOutcome: Hashable, Sendable {
        /// Continue as before.
        case none
        /// Stop reading until further notice: the message is settled, but too many wait for an earlier one.
        case stopReading
        /// Resume reading, starting with what is already buffered.
        case resumeReading
        /// Discard the input, resuming reading if it was stopped; the end waits for the messages before it.
        case awaitEarlier
        /// Discard the input, and end the connection.
        case finish(GatewayEnding)
    }

    /// Processes the outcome of a message; outcomes may arrive in any order.
    ///
    /// | outcome                                     | what the provider learns                                      |
    /// |---------------------------------------------|---------------------------------------------------------------|
    /// | accepted, suppressed                        | nothing                                                       |
    /// | rejected, since the app was removed         | nothing; the feedback service reports it                      |
    /// | any other rejection, or invalid             | the status, unless ``rejectionPolicy`` ignores it             |
    /// | unsent                                      | that the service shuts down; status 1 if nothing was accepted |
    /// | indeterminate                               | nothing; the connection closes, so the rest is uncertain      |
    ///
    /// With ``RejectionPolicy/ignore``, the connection is reset immediately if a message is unsent, and an
    /// indeterminate one counts as settled.
    ///
    /// A second outcome of the same message is ignored.
    ///
    /// - Parameters:
    ///   - number: the message.
    ///   - outcome: its outcome.
    ///   - isLast: whether nothing after it is accepted, so that a shutdown is reported to the provider; it applies if
    ///     the message was accepted. By default `false`.
    /// - Returns: what to do.
    public mutating func settle(_ number: UInt64, _ outcome: DeliveryOutcome, isLast: Bool = false) -> OnOutcome {
        // This is the most common outcome, and usually immediate.
        if case .accepted = outcome, !isLast, case .open(isReading: true) = self.state, self.window.acceptOnly(number) {
            return .none
        }
        return self.settleAny(number, outcome, isLast: isLast)
    }

    private mutating func settleAny(_ number: UInt64, _ outcome: DeliveryOutcome, isLast: Bool) -> OnOutcome {
        guard let message = self.window[number], !message.isAccepted else { return .none }
        switch self.state {
        case .draining, .closed: return .none
        case .open, .ending: break
        }
        switch outcome {
        case .accepted, .suppressed: return self.accept(number, isLast: isLast)
        case .rejected(let rejection):
            return self.refuse(number, rejection.errorResponseStatus, message, isLast: isLast)
        case .invalid(let reason):
            return self.refuse(number, Rejection.http2(reason.rejection).errorResponseStatus, message, isLast: isLast)
        case .unsent: return self.end(at: number, .shutdown)
        case .indeterminate:
            if self.rejectionPolicy == .ignore { return self.accept(number, isLast: isLast) }
            return self.end(at: number, .inDoubt)
        }
    }

    /// Records that a message was accepted.
    private mutating func accept(_ number: UInt64, isLast: Bool) -> OnOutcome {
        let next = self.window[number + 1]?.identifier
        if isLast { self.window.truncate(from: number + 1) }
        self.window.accept(number)
        return isLast ? self.end(at: number + 1, .shutdown, identifier: next) : self.advance()
    }

    /// Records that a message was refused; without a status it counts as accepted.
    private mutating func refuse(
        _ number: UInt64,
        _ status: ErrorResponse.Status?,
        _ message: GatewayWindow.Message,
        isLast: Bool
    ) -> OnOutcome {
        guard let status, self.rejectionPolicy == .report || Self.isAboutTopic(status) else {
            return self.accept(number, isLast: isLast)
        }
        let response = ErrorResponse(status: status, identifier: message.identifier ?? 0)
        return self.end(at: number, .fault(response, isReported: !message.isSimple))
    }

    /// Whether a status means that no message of the provider can be accepted.
    ///
    /// It is reported even under ``RejectionPolicy/ignore``, which is for faults of single messages.
    private static func isAboutTopic(_ status: ErrorResponse.Status) -> Bool {
        status == .missingTopic || status == .invalidTopicSize
    }

    /// Schedules the end before a message whose number is lower than that of the current end, if there is one.
    private mutating func end(at number: UInt64, _ reason: Reason, identifier: UInt32? = nil) -> OnOutcome {
        let identifier = identifier ?? self.window[number]?.identifier
        self.window.truncate(from: number)
        var end = End(reason: reason, number: number, identifier: identifier, isInputClosed: false)
        if case .ending(let before) = self.state {
            end.isInputClosed = before.isInputClosed
            if before.number == number { end.identifier = end.identifier ?? before.identifier }
        }
        return self.conclude(end).map { .finish($0) } ?? .awaitEarlier
    }

    /// Whether the end does not wait for the messages before it.
    ///
    /// A provider that never reads an error response writes into a connection until a write fails, so the connection
    /// is reset at once; the messages that were forwarded stay with their backend.
    private func isImmediate(_ reason: Reason) -> Bool {
        guard self.rejectionPolicy == .ignore else { return false }
        if case .fault = reason { return false }
        return true
    }

    private mutating func advance() -> OnOutcome {
        switch self.state {
        case .open(isReading: true) where self.window.count >= self.inFlightCountMax:
            self.stopReading()
            return .stopReading
        case .open(isReading: false) where self.window.count <= self.resumeCount:
            self.state = .open(isReading: true)
            return .resumeReading
        case .ending(let end) where self.window.isEmpty: return .finish(self.finish(end))
        case .open, .ending, .draining, .closed: return .none
        }
    }
}

// MARK: - The end

extension GatewaySession {
    /// What to do after the provider closed its side.
    @frozen
    public enum OnInputClosed: Hashable, Sendable {
        /// Keep this side open; the end waits for messages in flight.
        case awaitEarlier
        /// Close.
        case close
        /// Reset the connection.
        case reset
        /// Nothing; the connection is closed.
        case none
    }

    /// Processes the end of the provider's input.
    ///
    /// - Parameter isIncomplete: whether the input ends within a message, so that not everything is accepted; by
    ///   default `false`.
    /// - Returns: what to do.
    public mutating func inputClosed(isIncomplete: Bool = false) -> OnInputClosed {
        switch self.state {
        case .closed: return .none
        case .draining:
            self.state = .closed
            return .close
        case .open where self.window.isEmpty:
            self.state = .closed
            return isIncomplete ? .reset : .close
        case .open:
            let reason: Reason = isIncomplete ? .silence : .complete
            self.state = .ending(End(reason: reason, number: self.window.nextNumber, isInputClosed: true))
            return .awaitEarlier
        case .ending(var end):
            end.isInputClosed = true
            self.state = .ending(end)
            return .awaitEarlier
        }
    }

    /// What to do on a request to stop.
    @frozen
    public enum OnShutdown: Hashable, Sendable {
        /// Discard the input, resuming reading if it was stopped; the end waits for messages in flight.
        case awaitEarlier
        /// End the connection.
        case finish(GatewayEnding)
        /// Nothing; the end is already decided.
        case none
    }

    /// Requests the end of the connection after all messages in flight are settled.
    ///
    /// - Parameter isAnnounced: whether to report the stop to the provider, with status 10 and the identifier of the
    ///   last accepted message, if anything was discarded; see
    ///   ``GatewayEnding/carriedOut(hasDiscarded:isInputClosed:)``.
    /// - Returns: what to do.
    public mutating func shutDown(isAnnounced: Bool) -> OnShutdown {
        guard case .open = self.state else { return .none }
        let reason: Reason = isAnnounced ? .stop : .idle
        var end = End(reason: reason, number: self.window.nextNumber, isInputClosed: false)
        if let first = self.firstDiscarded, first.number == end.number { end.identifier = first.identifier }
        return self.conclude(end).map { .finish($0) } ?? .awaitEarlier
    }

    /// What to do after the end.
    @frozen
    public enum OnDrain: Hashable, Sendable {
        /// Continue.
        case none
        /// Close; the time for the provider is over.
        case close
    }

    /// Records a message that is discarded without being passed to ``receive(_:isPayloadObject:)``.
    ///
    /// All of them are recorded in order, before the call that ends the connection.
    /// The provider could take it for the message that a response names.
    ///
    /// - Parameter identifier: its identifier, if it has one.
    public mutating func discarded(identifier: UInt32?) {
        self.record(identifier)
        if self.firstDiscarded == nil { self.firstDiscarded = (self.seenCount, identifier) }
    }

    private mutating func record(_ identifier: UInt32?) {
        self.seenCount += 1
        if let identifier, self.identifiers.insert(identifier) { self.runNumber = self.seenCount }
    }

    /// Whether a message was forwarded and has no outcome.
    ///
    /// - Parameter number: the message.
    /// - Returns: `false` also for messages after the end.
    public func isOutstanding(_ number: UInt64) -> Bool { self.window[number].map { !$0.isAccepted } ?? false }

    /// Records discarded bytes.
    ///
    /// - Parameter byteCount: the number of bytes.
    /// - Returns: what to do.
    public mutating func discarded(byteCount: Int) -> OnDrain {
        guard case .draining(let left) = self.state else { return .none }
        guard byteCount < left else {
            self.state = .closed
            return .close
        }
        self.state = .draining(remainingByteCount: left - byteCount)
        return .none
    }

    /// Records that the time for discarding is over.
    ///
    /// - Returns: what to do.
    public mutating func drainDeadlinePassed() -> OnDrain {
        guard case .draining = self.state else { return .none }
        self.state = .closed
        return .close
    }

    /// Records that the connection is lost; later outcomes are ignored.
    public mutating func connectionLost() {
        self.state = .closed
    }
}

/// The messages of a connection that were forwarded but are not settled, with settled ones after them, in order.
///
/// The first message is stored separately: as long as each message is settled before the next arrives, the queue of the
/// others is not used.
struct GatewayWindow {
    /// What an error response needs to know about a message.
    struct Message: Hashable {
        /// `nil` if it has none.
        var identifier: UInt32?
        /// Whether it was in command 0, which gets no response.
        var isSimple: Bool
        var isAccepted = false
    }

    /// The number of the first unsettled message, counted from 1.
    private(set) var firstNumber: UInt64 = 1
    private(set) var count = 0
    /// The identifier of the last settled message; `nil` before the first, and if it has none.
    private(set) var lastAcceptedIdentifier: UInt32?

    /// The message with the first number, if there is one.
    private var first = Message(identifier: nil, isSimple: false)
    /// The messages after it.
    private var others: Deque<Message> = []

    var isEmpty: Bool { self.count == 0 }

    /// The number of the next message.
    var nextNumber: UInt64 { self.firstNumber &+ UInt64(truncatingIfNeeded: self.count) }

    subscript(number: UInt64) -> Message? {
        guard let offset = self.offset(of: number) else { return nil }
        return offset == 0 ? self.first : self.others[offset - 1]
    }

    @inline(__always)
    mutating func append(_ message: Message) -> UInt64 {
        let number = self.nextNumber
        if self.count == 0 { self.first = message } else { self.others.append(message) }
        self.count &+= 1
        return number
    }

    /// Settles the only message in the window, if it has this number.
    @inline(__always)
    mutating func acceptOnly(_ number: UInt64) -> Bool {
        guard self.count == 1, number == self.firstNumber else { return false }
        self.lastAcceptedIdentifier = self.first.identifier
        self.firstNumber &+= 1
        self.count = 0
        return true
    }

    /// Records that a message was accepted, and settles it together with directly following accepted ones.
    mutating func accept(_ number: UInt64) {
        guard let offset = self.offset(of: number) else { return }
        guard offset == 0 else {
            self.others[offset - 1].isAccepted = true
            return
        }
        self.first.isAccepted = true
        while self.count > 0, self.first.isAccepted {
            self.lastAcceptedIdentifier = self.first.identifier
            self.firstNumber += 1
            self.count -= 1
            guard let next = self.others.popFirst() else { return }
            self.first = next
        }
    }

    /// Removes a message and all after it.
    mutating func truncate(from number: UInt64) {
        guard let offset = self.offset(of: number) else { return }
        self.others.removeLast(self.count - max(offset, 1))
        self.count = offset
    }

    private func offset(of number: UInt64) -> Int? {
        guard number >= self.firstNumber, number - self.firstNumber < UInt64(self.count) else { return nil }
        return Int(number - self.firstNumber)
    }
}
