// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Glibc
import NIOCore

/// Parses what a provider sent and hands it on, all of a read in one loop.
///
/// It is a value, so that the loop touches the memory of no class but the backend's.
struct FrameDispatcher: ~Copyable {
    /// Where the loop ended.
    enum Outcome {
        /// Where more bytes are needed.
        case drained
        /// Where too much waits for its outcome.
        case stopped
        /// At the end, which waits for outcomes.
        case awaitsEarlier
        /// At the end.
        case finished(GatewayEnding)
    }

    var session: GatewaySession
    private let rules: GatewayRules
    private let limits: FrameLimits
    private let payloadCheck: BinaryListenerConfiguration.PayloadCheck
    private var bytes = FrameBytes()
    /// What is wrong with bytes that are no message.
    private(set) var fault: WireError?
    /// How many messages were passed over, and why the last of them was refused.
    private(set) var skipped: (count: Int, status: ErrorResponse.Status)?
    /// Passes over a message that is refused, where its provider is not told.
    private var skipper = FrameSkipper()
    /// Counts what is thrown away.
    private var discarded = DiscardedFrameCounter()
    /// What became of the messages.
    var counts = ConnectionCounts()
    /// The number that the message at fault would have, where that is the first one thrown away.
    private(set) var faultNumber: UInt64?
    /// Whether the message at fault is a probe: without token and payload, which asks for an answer.
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

    /// Hands on all whole messages.
    mutating func take(for delivery: any DeliveryConnection, outcomes: OutcomeQueue) -> Outcome {
        while true {
            guard self.skipRest() else { return .drained }
            let (bytes, messageCountMax) = self.bytes.next
            var taken = 0
            let outcome = self.walk(bytes, messageCountMax: messageCountMax, taken: &taken, delivery, outcomes)
            self.bytes.take(byteCount: taken)
            if let outcome { return outcome }
            guard taken > 0 || self.bytes.extend() else { return .drained }
        }
    }

    /// Goes on passing over a message that is refused.
    ///
    /// - Returns: whether its end was reached.
    private mutating func skipRest() -> Bool {
        while !self.skipper.isAtFrameStart {
            let (bytes, _) = self.bytes.next
            guard bytes.readableBytes > 0 else { return false }
            let count = unsafe bytes.withUnsafeReadableBytes { unsafe self.skipper.skip($0) }
            self.bytes.take(byteCount: count)
        }
        return true
    }

    /// How many messages were passed over since the last call, and why the last of them was refused.
    mutating func takeSkipped() -> (count: Int, status: ErrorResponse.Status)? {
        defer { self.skipped = nil }
        return self.skipped
    }

    /// Hands on the whole messages of some bytes.
    ///
    /// - Returns: where it ended, or `nil` where the bytes or the messages that it may take did.
    private mutating func walk(
        _ bytes: ByteBuffer,
        messageCountMax: Int,
        taken: inout Int,
        _ delivery: any DeliveryConnection,
        _ outcomes: OutcomeQueue
    ) -> Outcome? {
        // One value serves all messages of a read, so that no reference is counted for each.
        var message = InboundNotification(bytes: bytes, outcomes: outcomes, receivedAt: .now())
        // Batches often have one payload for all, which is compared more quickly than checked.
        var passed = 0..<0
        return unsafe bytes.withUnsafeReadableBytes { raw -> Outcome? in
            for _ in 0..<messageCountMax {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: raw[taken...])
                let action: GatewaySession.OnMessage
                do throws(WireError) {
                    guard unsafe try message.move(to: taken, rest, limits: self.limits) else { return nil }
                    let payload = message.layout.payloadRange(from: taken)
                    let isObject =
                        unsafe Self.isSame(passed, payload, in: raw) || self.payloadCheck.passes(rest, message.layout)
                    if isObject { passed = payload }
                    action = self.session.receive(message.layout, isPayloadObject: isObject)
                    if case .handOn(let number) = action {
                        message.number(number)
                        self.counts.handOn()
                        let became = delivery.deliver(message)
                        taken += message.layout.byteCount
                        if let outcome = self.settle(number, became, delivery) { return outcome }
                        continue
                    }
                    if delivery.observesRefusals {
                        unsafe self.report(rest, message, isPayloadObject: isObject, to: delivery)
                    }
                } catch {
                    self.fault = error
                    if delivery.observesRefusals { unsafe self.report(rest, message, error, to: delivery) }
                    action = unsafe self.session.receive(
                        error,
                        command: raw.isEmpty ? nil : Command(rawValue: raw[taken])
                    )
                }
                switch action {
                case .handOn: continue
                case .skip(let status):
                    self.counts.refuse()
                    self.skipped = ((self.skipped?.count ?? 0) + 1, status)
                    self.fault = nil
                    taken += unsafe self.skipper.skip(rest)
                    if !self.skipper.isAtFrameStart { return nil }
                    continue
                case .awaitEarlier, .discard:
                    self.noteFault(message.layout)
                    return .awaitsEarlier
                case .finish(let ending):
                    self.noteFault(message.layout)
                    return .finished(ending)
                }
            }
            return nil
        }
    }

    /// Whether two payloads are the same, of which the first may be none.
    private static func isSame(_ first: Range<Int>, _ second: Range<Int>, in bytes: UnsafeRawBufferPointer) -> Bool {
        guard !first.isEmpty, first.count == second.count, let base = bytes.baseAddress else { return false }
        return unsafe memcmp(base + first.lowerBound, base + second.lowerBound, first.count) == 0
    }

    /// The number that the next message is given.
    private var nextNumber: UInt64 { self.session.acceptedCount + UInt64(self.session.inFlightCount) + 1 }

    /// Tells who observes it of a whole message that was refused.
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
                rest: rest
            )
        )
    }

    /// Tells who observes it of bytes that are no message.
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
                rest: rest
            )
        )
    }

    private mutating func settle(
        _ number: UInt64,
        _ became: DeliveryOutcome?,
        _ delivery: any DeliveryConnection
    ) -> Outcome? {
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

    /// Throws away what was read and not taken, and from now on all that is read.
    ///
    /// - Returns: how many messages were in it, that which is at fault not among them.
    mutating func discard() -> Int {
        let before = self.discardedCount
        self.bytes.takeAll { bytes in
            unsafe bytes.withUnsafeReadableBytes { bytes in
                // The rest of what was passed over was counted with its begin.
                let skipped = self.skipper.isAtFrameStart ? 0 : unsafe self.skipper.skip(bytes)
                unsafe self.discarded.count(UnsafeRawBufferPointer(rebasing: bytes[skipped...]))
            }
        }
        return self.discardedCount - before
    }

    private mutating func noteFault(_ layout: FrameLayout) {
        self.faultNumber = self.nextNumber
        // The layout of what is no message is that of the one before.
        self.isFaultProbe = self.fault == nil && layout.tokenByteCount + layout.payloadByteCount == 0
    }

    /// How many messages were thrown away, that which is at fault not among them, since the end is to say so.
    var discardedCount: Int { max(0, self.discarded.frameCount - (self.faultNumber == nil ? 0 : 1)) }

    /// Records that the end of the connection does not name the message at fault, which is thrown away like the
    /// others.
    ///
    /// - Returns: how many messages that adds.
    mutating func discardFault() -> Int {
        let before = self.discardedCount
        self.faultNumber = nil
        return self.discardedCount - before
    }

    /// How many bytes were thrown away behind one that is no command.
    var unparsedByteCount: Int { self.discarded.unparsedByteCount }
}

extension FrameLayout {
    /// Where the payload lies, in bytes of which the message begins with one.
    fileprivate func payloadRange(from start: Int) -> Range<Int> {
        start + self.payloadOffset..<start + self.payloadOffset + self.payloadByteCount
    }
}
