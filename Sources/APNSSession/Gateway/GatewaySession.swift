// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// One provider's connection as the gateway sees it: decides what is handed on, and what is told when, and in which
/// order.
///
/// Success is silent, so a provider learns everything from the one response and from its place: all before the message
/// it names were taken, all behind it were thrown away. Therefore only the lowest failing message is ever reported, and
/// only when all before it are settled, in whatever order their outcomes come. Of messages that were handed on at the
/// same time as one before them that fails, the outcomes are passed over: the provider sends them again.
///
/// - SeeAlso: Binary Provider API, "error-response packet".
public struct GatewaySession: ~Copyable {
    /// How many messages may be without an outcome at a time unless the caller says otherwise.
    ///
    /// The default of HTTP/2 servers for concurrent streams is of this order, which is what a bridge needs.
    public static let inFlightCountMaxDefault = 1000

    /// How many bytes are read and thrown away after the end unless the caller says otherwise: more than the socket
    /// buffers of both ends hold.
    public static let drainByteCountMaxDefault = 64 * 1024 * 1024

    /// Why the end comes.
    private enum Cause {
        /// A message is at fault; its provider is told unless it came in command 0.
        case fault(ErrorResponse, isReported: Bool)
        /// The service has to stop.
        case shutdown
        /// The gateway is not let in by the service, which is told as a shutdown behind what was taken.
        case notPermitted
        /// Nothing is to be said.
        case silence
    }

    /// What is known of the end that waits for the messages before it.
    private struct End {
        var cause: Cause
        /// The first message that is not taken.
        var number: UInt64
        var isInputClosed: Bool
    }

    private enum State {
        case open(isReading: Bool)
        case ending(End)
        case draining(byteCountLeft: Int)
        case closed
    }

    /// The longest command-2 frame, in bytes of its items, that is passed over with ``RejectionPolicy/ignore``.
    ///
    /// It is above what two fields with 16-bit lengths come to in the other commands. What announces more is no
    /// notification that a provider meant to send, and passing over it could swallow what follows.
    static let skippedFrameByteCountMax: UInt32 = 256 * 1024

    /// What is done about notifications that are refused for a reason of their own; by default they are reported.
    public var rejectionPolicy = RejectionPolicy.report

    private let rules: GatewayRules
    private let inFlightCountMax: Int
    private let drainByteCountMax: Int
    private var window = GatewayWindow()
    private var state: State = .open(isReading: true)
    /// With how few messages in flight reading goes on where it was stopped.
    private var resumeCount = 0

    /// Begins with a connection on which nothing has arrived.
    ///
    /// - Parameters:
    ///   - rules: what is checked before a message is handed on.
    ///   - inFlightCountMax: how many messages may be without an outcome, at least 1; with 1, the next is handed on
    ///     only when all before it are settled. By default 1000.
    ///   - drainByteCountMax: how many bytes are thrown away after the end; by default 64 MiB.
    public init(
        rules: GatewayRules = GatewayRules(),
        inFlightCountMax: Int = GatewaySession.inFlightCountMaxDefault,
        drainByteCountMax: Int = GatewaySession.drainByteCountMaxDefault
    ) {
        self.rules = rules
        self.inFlightCountMax = max(1, inFlightCountMax)
        self.drainByteCountMax = max(0, drainByteCountMax)
    }

    /// How many messages were accepted with all before them.
    public var acceptedCount: UInt64 { self.window.firstNumber - 1 }

    /// How many messages were handed on and are not settled.
    public var inFlightCount: Int { self.window.count }
}

// MARK: - What arrives

extension GatewaySession {
    /// What to do with a message that arrived.
    @frozen
    public enum OnMessage: Hashable, Sendable {
        /// Hand it on under this number; then say ``GatewaySession/settle(_:_:isLast:)`` or
        /// ``GatewaySession/wait(for:isFull:)``.
        case handOn(UInt64)
        /// Throw it away and all that follows it; the end waits for the messages before it.
        case awaitEarlier
        /// Throw it away and all that follows it, and end the connection.
        case finish(GatewayEnding)
        /// Pass over it, and go on with the next; it is refused with this status, which the provider is not told.
        case skip(ErrorResponse.Status)
        /// Throw it away; the end was decided before.
        case discard
    }

    /// Takes a message.
    ///
    /// - Parameters:
    ///   - message: where its parts lie.
    ///   - isPayloadObject: whether its payload is a JSON object; `true` where that is not checked.
    /// - Returns: what to do with it.
    /// - Precondition: reading was not to be stopped.
    public mutating func receive(_ message: borrowing FrameLayout, isPayloadObject: Bool = true) -> OnMessage {
        guard case .open(let isReading) = self.state else { return .discard }
        precondition(isReading, "No message may be taken while reading is stopped.")
        if let status = self.rules.fault(of: message, isPayloadObject: isPayloadObject) {
            // Whoever sends nothing at all asks for an answer.
            let isProbe = message.tokenByteCount + message.payloadByteCount == 0
            if self.rejectionPolicy == .ignore, !isProbe { return .skip(status) }
            return self.fail(status, command: message.command, identifier: message.identifier)
        }
        let isSimple = message.command == .simple
        return .handOn(
            self.window.append(GatewayWindow.Message(identifier: message.identifier ?? 0, isSimple: isSimple))
        )
    }

    /// Takes bytes that are no message.
    ///
    /// - Parameters:
    ///   - error: what is wrong with them.
    ///   - command: the command they begin with, `nil` for none of those that exist.
    /// - Returns: what to do; never to hand something on.
    public mutating func receive(_ error: WireError, command: Command?) -> OnMessage {
        guard case .open = self.state else { return .discard }
        if self.rejectionPolicy == .ignore, let status = Self.skippedStatus(error) { return .skip(status) }
        return self.fail(error.status, command: command, identifier: error.identifier)
    }

    /// What is wrong with a message that can be passed over, since where it ends is known.
    private static func skippedStatus(_ error: WireError) -> ErrorResponse.Status? {
        if case .frameTooLong(let announced, _) = error, announced > Self.skippedFrameByteCountMax { return nil }
        return error.status
    }

    private mutating func fail(
        _ status: ErrorResponse.Status?,
        command: Command?,
        identifier: UInt32?
    ) -> OnMessage {
        var cause = Cause.silence
        if let status, let command {
            let response = ErrorResponse(status: status, identifier: identifier ?? 0)
            cause = .fault(response, isReported: command != .simple)
        }
        let end = End(cause: cause, number: self.window.nextNumber, isInputClosed: false)
        return self.conclude(end).map { .finish($0) } ?? .awaitEarlier
    }

    /// Ends now, or else when what is in flight is settled.
    private mutating func conclude(_ end: End) -> GatewayEnding? {
        guard !self.window.isEmpty else { return self.finish(end) }
        self.state = .ending(end)
        return nil
    }

    private mutating func finish(_ end: End) -> GatewayEnding {
        let response: ErrorResponse? =
            switch end.cause {
            case .fault(let response, let isReported): isReported ? response : nil
            case .notPermitted where self.acceptedCount == 0: nil
            case .shutdown, .notPermitted:
                ErrorResponse(status: .shutdown, identifier: self.window.lastAcceptedIdentifier)
            case .silence: nil
            }
        self.state = end.isInputClosed ? .closed : .draining(byteCountLeft: self.drainByteCountMax)
        var ending = GatewayEnding(response: response, number: end.number, drains: !end.isInputClosed)
        if case .fault(let fault, _) = end.cause { ending.status = fault.status }
        return ending
    }
}

// MARK: - Outcomes

extension GatewaySession {
    /// What to do while a message waits for its outcome.
    @frozen
    public enum OnWait: Hashable, Sendable {
        /// Go on.
        case none
        /// Read and take nothing until told to.
        case stopReading
    }

    /// Notes that the outcome on a message that was just handed on comes later.
    ///
    /// - Parameters:
    ///   - number: the message.
    ///   - isFull: whether there is no room for more of any connection; reading then goes on when half of what this
    ///     one has in flight is settled.
    /// - Returns: what to do meanwhile.
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
        /// Go on as before.
        case none
        /// Read and take nothing until told to: the message is done, but too many wait for one before it.
        case stopReading
        /// Read again, beginning with what was already read.
        case resumeReading
        /// Throw away what was read and what comes, reading again if that was stopped; the end waits for the messages
        /// before it.
        case awaitEarlier
        /// Throw away what was read and what comes, and end the connection.
        case finish(GatewayEnding)
    }

    /// Takes what became of a message; outcomes may come in any order.
    ///
    /// | outcome                                     | what the provider learns                                      |
    /// |---------------------------------------------|---------------------------------------------------------------|
    /// | accepted, suppressed                        | nothing                                                       |
    /// | rejected, since the app is gone             | nothing here: it hears of that from the feedback service      |
    /// | rejected or invalid otherwise               | the status, unless ``rejectionPolicy`` keeps it from that     |
    /// | unsent                                      | that the service shuts down                                   |
    /// | unsent, since the gateway is not permitted  | that, where something was taken before, else nothing          |
    /// | indeterminate                               | nothing: the connection closes, so that the rest is in doubt  |
    ///
    /// A second outcome of the same message is passed over.
    ///
    /// - Parameters:
    ///   - number: the message.
    ///   - outcome: what became of it.
    ///   - isLast: whether nothing that follows it is taken, so that the provider is told that the service shuts down;
    ///     it counts where the message was taken. By default `false`.
    /// - Returns: what to do.
    public mutating func settle(_ number: UInt64, _ outcome: DeliveryOutcome, isLast: Bool = false) -> OnOutcome {
        // Nearly every outcome is this one, and comes at once.
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
        case .unsent(.notPermitted): return self.end(at: number, .notPermitted)
        case .unsent: return self.end(at: number, .shutdown)
        case .indeterminate: return self.end(at: number, .silence)
        }
    }

    /// Takes it that a message was taken.
    private mutating func accept(_ number: UInt64, isLast: Bool) -> OnOutcome {
        if isLast { self.window.truncate(from: number + 1) }
        self.window.accept(number)
        return isLast ? self.end(at: number + 1, .shutdown) : self.advance()
    }

    /// Takes it that a message was refused; with no status it counts as taken.
    private mutating func refuse(
        _ number: UInt64,
        _ status: ErrorResponse.Status?,
        _ message: GatewayWindow.Message,
        isLast: Bool
    ) -> OnOutcome {
        guard let status, self.rejectionPolicy == .report || Self.isAboutTopic(status) else {
            return self.accept(number, isLast: isLast)
        }
        let response = ErrorResponse(status: status, identifier: message.identifier)
        return self.end(at: number, .fault(response, isReported: !message.isSimple))
    }

    /// Whether a status says that no message of the provider can be taken, so that a provider is told which never
    /// listens: ``RejectionPolicy/ignore`` is for what is the message's own fault.
    private static func isAboutTopic(_ status: ErrorResponse.Status) -> Bool {
        status == .missingTopic || status == .invalidTopicSize
    }

    /// Puts the end before a message, which is lower than where the end was, if there was one.
    private mutating func end(at number: UInt64, _ cause: Cause) -> OnOutcome {
        self.window.truncate(from: number)
        var end = End(cause: cause, number: number, isInputClosed: false)
        if case .ending(let before) = self.state { end.isInputClosed = before.isInputClosed }
        return self.conclude(end).map { .finish($0) } ?? .awaitEarlier
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
    /// What to do when the provider closed its side.
    @frozen
    public enum OnInputClosed: Hashable, Sendable {
        /// Keep the own side open; the end waits for messages in flight.
        case awaitEarlier
        /// Close.
        case close
        /// Nothing; the connection is closed.
        case none
    }

    /// Takes the end of what the provider sends; half a message at the end is nothing.
    ///
    /// - Returns: what to do.
    public mutating func inputClosed() -> OnInputClosed {
        switch self.state {
        case .closed: return .none
        case .draining:
            self.state = .closed
            return .close
        case .open where self.window.isEmpty:
            self.state = .closed
            return .close
        case .open:
            self.state = .ending(End(cause: .silence, number: self.window.nextNumber, isInputClosed: true))
            return .awaitEarlier
        case .ending(var end):
            end.isInputClosed = true
            self.state = .ending(end)
            return .awaitEarlier
        }
    }

    /// What to do about the wish to stop.
    @frozen
    public enum OnShutdown: Hashable, Sendable {
        /// Throw away what comes, reading again if that was stopped; the end waits for messages in flight.
        case awaitEarlier
        /// End the connection.
        case finish(GatewayEnding)
        /// Nothing; the end was decided before.
        case none
    }

    /// Takes the wish to end the connection as soon as what is in flight is settled.
    ///
    /// - Parameter isAnnounced: whether the provider is told, with status 10 and the identifier of the last message
    ///   that was taken, 0 for none.
    /// - Returns: what to do.
    public mutating func shutDown(isAnnounced: Bool) -> OnShutdown {
        guard case .open = self.state else { return .none }
        let cause: Cause = isAnnounced ? .shutdown : .silence
        let end = End(cause: cause, number: self.window.nextNumber, isInputClosed: false)
        return self.conclude(end).map { .finish($0) } ?? .awaitEarlier
    }

    /// What to do after the end.
    @frozen
    public enum OnDrain: Hashable, Sendable {
        /// Go on.
        case none
        /// Close; the provider had its time.
        case close
    }

    /// Notes that bytes were thrown away.
    ///
    /// - Parameter byteCount: how many.
    /// - Returns: what to do.
    public mutating func discarded(byteCount: Int) -> OnDrain {
        guard case .draining(let left) = self.state else { return .none }
        guard byteCount < left else {
            self.state = .closed
            return .close
        }
        self.state = .draining(byteCountLeft: left - byteCount)
        return .none
    }

    /// Notes that the time for throwing away is over.
    ///
    /// - Returns: what to do.
    public mutating func drainDeadlinePassed() -> OnDrain {
        guard case .draining = self.state else { return .none }
        self.state = .closed
        return .close
    }

    /// Notes that the connection is gone; outcomes that still come are passed over.
    public mutating func connectionLost() {
        self.state = .closed
    }
}
