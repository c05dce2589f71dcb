// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Glibc
import NIOCore

/// Parses a read and passes its messages to the backend in one loop.
///
/// It is a value type, so the loop touches no class instance except the backend's.
struct FrameDispatcher: ~Copyable {
    /// Why the loop stopped.
    enum StopReason {
        /// More bytes are needed.
        case drained
        /// Too many messages wait for their outcomes.
        case stopped
        /// The connection ends after pending outcomes.
        case awaitsEarlier
        /// The connection ends.
        case finished(GatewayEnding)
    }

    var session: GatewaySession
    private let rules: GatewayRules
    private let limits: FrameLimits
    private let payloadCheck: BinaryListenerConfiguration.PayloadCheck
    private var bytes = FrameBytes()
    /// What is wrong with bytes that are not a message.
    private(set) var fault: WireError?
    /// What is wrong with the last message that failed the checks, or with bytes that are not a message.
    private(set) var faultReason = ""
    /// The number of skipped messages, and the status of the last one.
    private(set) var skipped: (count: Int, status: ErrorResponse.Status)?
    /// Skips a rejected message that causes no error response.
    private var skipper = FrameSkipper()
    /// Counts what is discarded.
    private var discarded = DiscardedFrameCounter()
    /// The beginning of a discarded message, which is reported to the session when it is complete.
    private var beginOfDiscarded = ByteBuffer()
    /// The counts for the log.
    var counts = ConnectionCounts()
    /// The number that the message at fault would have, if it is the first discarded one.
    private(set) var faultNumber: UInt64?
    /// Whether the message at fault is a probe: a message without token and payload that requests an error response.
    private(set) var isFaultProbe = false

    init(_ configuration: BinaryListenerConfiguration, requiresOrder: Bool) {
        self.session = GatewaySession(
            rules: configuration.rules,
            inFlightCountMax: requiresOrder ? 1 : configuration.inFlightCountMax,
            drainByteCountMax: configuration.drainByteCountMax
        )
        self.rules = configuration.rules
        self.limits = configuration.limits
        self.payloadCheck = configuration.payloadCheck
    }

    mutating func append(_ bytes: consuming ByteBuffer) {
        self.bytes.append(bytes)
    }

    /// Passes on all complete messages.
    mutating func dispatch(for delivery: any DeliveryConnection, outcomes: OutcomeQueue) -> StopReason {
        while true {
            guard self.skipRest() else { return .drained }
            let (bytes, messageCountMax) = self.bytes.next
            var consumed = 0
            let stopReason = self.dispatchMessages(
                bytes,
                messageCountMax: messageCountMax,
                consumed: &consumed,
                delivery,
                outcomes
            )
            self.bytes.consume(byteCount: consumed)
            if let stopReason { return stopReason }
            guard consumed > 0 || self.bytes.extend() else { return .drained }
        }
    }

    /// Continues to skip a rejected message.
    ///
    /// Returns whether its end was reached.
    private mutating func skipRest() -> Bool {
        while !self.skipper.isAtFrameStart {
            let (bytes, _) = self.bytes.next
            guard bytes.readableBytes > 0 else { return false }
            let count = unsafe bytes.withUnsafeReadableBytes { unsafe self.skipper.skip($0) }
            self.bytes.consume(byteCount: count)
        }
        return true
    }

    /// Returns the number of messages skipped since the last call, and the status of the last one.
    mutating func takeSkipped() -> (count: Int, status: ErrorResponse.Status)? {
        defer { self.skipped = nil }
        return self.skipped
    }

    /// Passes on the complete messages in a buffer.
    ///
    /// Returns why it stopped; `nil` if the bytes or the message quota ran out.
    private mutating func dispatchMessages(
        _ bytes: ByteBuffer,
        messageCountMax: Int,
        consumed: inout Int,
        _ delivery: any DeliveryConnection,
        _ outcomes: OutcomeQueue
    ) -> StopReason? {
        // One value serves all messages of a read, which saves reference counting per message.
        var message = InboundNotification(bytes: bytes, outcomes: outcomes, receivedAt: .now())
        // The messages of a batch often share one payload, and comparing is faster than checking.
        var passed = 0..<0
        return unsafe bytes.withUnsafeReadableBytes { raw -> StopReason? in
            for _ in 0..<messageCountMax {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: raw[consumed...])
                let action: GatewaySession.OnMessage
                do throws(WireError) {
                    guard unsafe try message.move(to: consumed, rest, limits: self.limits) else { return nil }
                    let payload = message.layout.payloadRange(from: consumed)
                    let isObject =
                        unsafe Self.isSame(passed, payload, in: raw) || self.payloadCheck.passes(rest, message.layout)
                    if isObject { passed = payload }
                    action = self.session.receive(message.layout, isPayloadObject: isObject)
                    if case .forward(let number) = action {
                        message.number(number)
                        self.counts.forward()
                        let became = delivery.deliver(message)
                        consumed += message.layout.byteCount
                        if let stopReason = self.settle(number, became, delivery) { return stopReason }
                        continue
                    }
                    self.faultReason = self.rules.reason(of: message.layout, isPayloadObject: isObject) ?? ""
                    if delivery.observesRefusals {
                        unsafe self.report(rest, message, isPayloadObject: isObject, to: delivery)
                    }
                } catch {
                    self.fault = error
                    self.faultReason = "\(error)"
                    if delivery.observesRefusals { unsafe self.report(rest, message, error, to: delivery) }
                    action = unsafe self.session.receive(
                        error,
                        command: raw.isEmpty ? nil : Command(rawValue: raw[consumed])
                    )
                }
                switch action {
                case .forward: continue
                case .skip(let status):
                    self.counts.refuse()
                    self.skipped = ((self.skipped?.count ?? 0) + 1, status)
                    self.fault = nil
                    consumed += unsafe self.skipper.skip(rest)
                    if !self.skipper.isAtFrameStart { return nil }
                    continue
                case .awaitEarlier, .discard:
                    self.recordFault(message.layout)
                    return .awaitsEarlier
                case .finish(let ending):
                    self.recordFault(message.layout)
                    return .finished(ending)
                }
            }
            return nil
        }
    }

    /// Whether two payloads are identical; the first may be absent.
    private static func isSame(_ first: Range<Int>, _ second: Range<Int>, in bytes: UnsafeRawBufferPointer) -> Bool {
        guard !first.isEmpty, first.count == second.count, let base = bytes.baseAddress else { return false }
        return unsafe memcmp(base + first.lowerBound, base + second.lowerBound, first.count) == 0
    }

    /// The number of the next message.
    private var nextNumber: UInt64 { self.session.acceptedCount + UInt64(self.session.inFlightCount) + 1 }

    /// Reports a complete message that was rejected to the backend.
    private func report(
        _ rest: UnsafeRawBufferPointer,
        _ message: borrowing InboundNotification,
        isPayloadObject: Bool,
        to delivery: any DeliveryConnection
    ) {
        delivery.refused(
            unsafe RefusedMessage(
                number: self.nextNumber,
                status: self.rules.fault(of: message.layout, isPayloadObject: isPayloadObject),
                identifier: message.identifier,
                byteCount: message.layout.byteCount,
                receivedAt: message.receivedAt,
                reason: self.faultReason,
                rest: rest
            )
        )
    }

    /// Reports bytes that are not a message to the backend.
    private func report(
        _ rest: UnsafeRawBufferPointer,
        _ message: borrowing InboundNotification,
        _ error: WireError,
        to delivery: any DeliveryConnection
    ) {
        delivery.refused(
            unsafe RefusedMessage(
                number: self.nextNumber,
                status: error.status,
                identifier: error.identifier,
                byteCount: nil,
                receivedAt: message.receivedAt,
                reason: self.faultReason,
                rest: rest
            )
        )
    }

    private mutating func settle(
        _ number: UInt64,
        _ became: DeliveryOutcome?,
        _ delivery: any DeliveryConnection
    ) -> StopReason? {
        guard let became else {
            return self.session.wait(for: number, isFull: delivery.isFull) == .stopReading ? .stopped : nil
        }
        self.counts.settle(became)
        switch self.session.settle(number, became) {
        case .none, .resumeReading: return nil
        case .stopReading: return .stopped
        case .awaitEarlier: return .awaitsEarlier
        case .finish(let ending): return .finished(ending)
        }
    }

    /// Discards what was read and not processed, and everything read from now on.
    ///
    /// Returns the number of messages in it, excluding the one at fault.
    mutating func discard() -> Int {
        let before = self.discardedCount
        var unparsed = FrameBytes()
        swap(&unparsed, &self.bytes)
        unparsed.drain { bytes in
            unsafe bytes.withUnsafeReadableBytes { bytes in
                // The rest of a skipped message was counted with its beginning.
                let skipped = self.skipper.isAtFrameStart ? 0 : unsafe self.skipper.skip(bytes)
                let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[skipped...])
                unsafe self.recordIdentifiers(in: rest)
                unsafe self.discarded.count(rest)
            }
        }
        return self.discardedCount - before
    }

    /// Reports the complete messages in discarded bytes to the session.
    private mutating func recordIdentifiers(in bytes: UnsafeRawBufferPointer) {
        // The end of a message that is reported, or cannot be read.
        let isAtBegin = self.beginOfDiscarded.readableBytes == 0
        let offset = isAtBegin ? unsafe self.discarded.byteCountToFrameEnd(in: bytes) : 0
        unsafe self.beginOfDiscarded.writeBytes(UnsafeRawBufferPointer(rebasing: bytes[offset...]))
        var layout = FrameLayout(command: .simple)
        while self.beginOfDiscarded.readableBytes > 0 {
            let isComplete = try? unsafe self.beginOfDiscarded.withUnsafeReadableBytes {
                unsafe try layout.read($0, limits: self.limits)
            }
            guard isComplete == true else {
                // What cannot be read has no identifier.
                if isComplete == nil { self.beginOfDiscarded.clear() }
                break
            }
            self.session.discarded(identifier: layout.identifier)
            self.beginOfDiscarded.moveReaderIndex(forwardBy: layout.byteCount)
        }
        self.beginOfDiscarded.discardReadBytes()
    }

    /// Reports a message to the session of which only the beginning has arrived: it was not accepted.
    mutating func endDiscarding() {
        guard let command = self.beginOfDiscarded.readInteger(as: UInt8.self) else { return }
        let isKnown = Command(rawValue: command) == .enhanced
        self.session.discarded(identifier: isKnown ? self.beginOfDiscarded.readInteger(as: UInt32.self) : nil)
        self.beginOfDiscarded.clear()
    }

    /// Whether a part of a message has arrived, or messages wait for room.
    var hasUnparsed: Bool { !self.skipper.isAtFrameStart || !self.bytes.isEmpty }

    /// Whether any byte was discarded.
    var hasDiscarded: Bool {
        self.discarded.frameCount > 0 || self.discarded.unparsedByteCount > 0 || !self.discarded.isAtFrameStart
    }

    private mutating func recordFault(_ layout: FrameLayout) {
        self.faultNumber = self.nextNumber
        // Bytes that are not a message leave the layout of the previous message.
        self.isFaultProbe = self.fault == nil && layout.tokenByteCount + layout.payloadByteCount == 0
    }

    /// The number of discarded messages, excluding the one at fault, which the end names.
    var discardedCount: Int { max(0, self.discarded.frameCount - (self.faultNumber == nil ? 0 : 1)) }

    /// Records that the end of the connection does not name the message at fault, which counts as discarded.
    ///
    /// Returns the number of messages that this adds.
    mutating func discardFault() -> Int {
        let before = self.discardedCount
        self.faultNumber = nil
        return self.discardedCount - before
    }

    /// The number of bytes discarded after one that is not a command.
    var unparsedByteCount: Int { self.discarded.unparsedByteCount }
}

extension FrameLayout {
    /// The range of the payload in a buffer in which the message begins at `start`.
    fileprivate func payloadRange(from start: Int) -> Range<Int> {
        start + self.payloadOffset..<start + self.payloadOffset + self.payloadByteCount
    }
}

/// The unprocessed bytes of a stream: the beginning of a message from earlier reads, and the newest read.
///
/// Only a message that spans two reads is copied.
struct FrameBytes {
    /// Most incomplete messages are complete after this many more bytes.
    private static let joinedByteCountUsual = 512

    /// The beginning of a message, possibly followed by more than its end.
    private var begin = ByteBuffer()
    private var newest = ByteBuffer()
    /// How many of the last bytes of `begin` are also the first of `newest`.
    private var sharedCount = 0

    /// The bytes to parse next: one message if it spans two reads, otherwise everything.
    var next: (bytes: ByteBuffer, messageCountMax: Int) {
        self.begin.readableBytes > 0 ? (self.begin, 1) : (self.newest, .max)
    }

    var isEmpty: Bool { self.begin.readableBytes == 0 && self.newest.readableBytes == 0 }

    mutating func append(_ bytes: consuming ByteBuffer) {
        if self.newest.readableBytes == 0 {
            self.newest = bytes
        } else {
            self.newest.writeBuffer(&bytes)
        }
    }

    /// Marks bytes of ``next`` as processed.
    mutating func consume(byteCount: Int) {
        guard self.begin.readableBytes > 0 else {
            self.newest.moveReaderIndex(forwardBy: byteCount)
            return
        }
        guard byteCount > 0 else { return }
        self.newest.moveReaderIndex(forwardBy: byteCount - (self.begin.readableBytes - self.sharedCount))
        self.begin = ByteBuffer()
        self.sharedCount = 0
    }

    /// Removes and returns all bytes in order of arrival.
    mutating func drain(_ body: (ByteBuffer) -> Void) {
        if self.begin.readableBytes > 0 {
            body(self.begin)
            self.newest.moveReaderIndex(forwardBy: self.sharedCount)
        }
        if self.newest.readableBytes > 0 { body(self.newest) }
        self = FrameBytes()
    }

    /// Adds bytes to an incomplete message.
    ///
    /// Returns whether there were any.
    mutating func extend() -> Bool {
        guard self.begin.readableBytes > 0 else {
            guard self.newest.readableBytes > 0 else { return false }
            // A slice would retain the memory of the whole read.
            self.begin = ByteBuffer(bytes: self.newest.readableBytesView)
            self.newest = ByteBuffer()
            return false
        }
        let unshared = self.newest.readableBytes - self.sharedCount
        guard unshared > 0 else {
            self.newest = ByteBuffer()
            self.sharedCount = 0
            return false
        }
        let count = self.sharedCount == 0 ? min(unshared, Self.joinedByteCountUsual) : unshared
        self.begin.writeBytes(
            self.newest.viewBytes(at: self.newest.readerIndex + self.sharedCount, length: count) ?? .init()
        )
        self.sharedCount += count
        return true
    }
}

/// Counts the outcomes of a connection's messages for its final log line.
struct ConnectionCounts: Hashable, Sendable {
    /// Messages passed to the backend.
    private(set) var forwarded: UInt64 = 0
    /// Messages accepted by the service.
    private(set) var delivered: UInt64 = 0
    /// Resends of messages that were delivered on an earlier connection.
    private(set) var resent: UInt64 = 0
    /// Messages rejected by the service or by the listener's checks.
    private(set) var rejected: UInt64 = 0
    /// Messages whose tokens are dead and on the feedback list.
    private(set) var listed: UInt64 = 0
    /// Messages that the listener rejected and skipped.
    private var refused: UInt64 = 0

    /// All received messages except the one at fault and those discarded after it.
    var processed: UInt64 { self.forwarded + self.refused }

    /// Messages that were not accepted, are in doubt, or had no outcome when the connection closed.
    var unsettled: UInt64 {
        let settled = self.delivered + self.resent + self.rejected - self.refused + self.listed
        return self.forwarded > settled ? self.forwarded - settled : 0
    }

    /// Records that a message was passed to the backend.
    mutating func forward() { self.forwarded += 1 }

    /// Records the outcome of a message.
    mutating func settle(_ outcome: DeliveryOutcome) {
        switch outcome {
        case .accepted: self.delivered += 1
        case .suppressed: self.resent += 1
        case .rejected(let rejection):
            if rejection.errorResponseStatus == nil { self.listed += 1 } else { self.rejected += 1 }
        case .invalid: self.rejected += 1
        case .unsent, .indeterminate: break
        }
    }

    /// Records that the listener skipped a message that failed its checks.
    mutating func refuse() {
        self.refused += 1
        self.rejected += 1
    }
}
