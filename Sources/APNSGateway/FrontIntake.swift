// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore

/// Parses what a provider sent and hands it on, all of a read in one loop.
///
/// It is a value, so that the loop touches the memory of no class but the backend's.
struct FrontIntake: ~Copyable {
    /// Where the loop ended.
    enum Outcome {
        /// Where more octets are needed.
        case drained
        /// Where too much waits for its verdict.
        case stopped
        /// At the end, which waits for verdicts.
        case awaitsEarlier
        /// At the end.
        case finished(GatewayEnding)
    }

    var session: GatewaySession
    private let limits: FrameLimits
    private let payloadCheck: BinaryFrontConfiguration.PayloadCheck
    private var octets = FrameOctets()
    /// What is wrong with octets that are no message.
    private(set) var fault: WireError?

    init(_ configuration: BinaryFrontConfiguration, requiresOrder: Bool) {
        self.session = GatewaySession(
            rules: configuration.rules,
            inFlightCountMax: requiresOrder ? 1 : configuration.inFlightCountMax,
            drainOctetCountMax: configuration.drainOctetCountMax
        )
        self.limits = configuration.limits
        self.payloadCheck = configuration.payloadCheck
    }

    mutating func append(_ octets: consuming ByteBuffer) {
        self.octets.append(octets)
    }

    /// Hands on all whole messages.
    mutating func take(for delivery: any DeliveryConnection, inbox: VerdictInbox) -> Outcome {
        while true {
            let (octets, messageCountMax) = self.octets.next
            var taken = 0
            let outcome = self.walk(octets, messageCountMax: messageCountMax, taken: &taken, delivery, inbox)
            self.octets.take(octetCount: taken)
            if let outcome { return outcome }
            guard taken > 0 || self.octets.extend() else { return .drained }
        }
    }

    /// Hands on the whole messages of some octets.
    ///
    /// - Returns: where it ended, or `nil` where the octets or the messages that it may take did.
    private mutating func walk(
        _ octets: ByteBuffer,
        messageCountMax: Int,
        taken: inout Int,
        _ delivery: any DeliveryConnection,
        _ inbox: VerdictInbox
    ) -> Outcome? {
        // One value serves all messages of a read, so that no reference is counted for each.
        var message = InboundNotification(octets: octets, inbox: inbox)
        return octets.withUnsafeReadableBytes { raw -> Outcome? in
            for _ in 0..<messageCountMax {
                let rest = UnsafeRawBufferPointer(rebasing: raw[taken...])
                let action: GatewaySession.OnMessage
                do throws(WireError) {
                    guard try message.move(to: taken, rest, limits: self.limits) else { return nil }
                    let isObject = self.payloadCheck.passes(rest, message.layout)
                    action = self.session.receive(message.layout, isPayloadObject: isObject)
                    if case .handOn(let number) = action {
                        message.number(number)
                        let verdict = delivery.deliver(message)
                        taken += message.layout.octetCount
                        if let outcome = self.settle(number, verdict, delivery) { return outcome }
                        continue
                    }
                } catch {
                    self.fault = error
                    action = self.session.receive(error, command: raw.isEmpty ? nil : Command(rawValue: raw[taken]))
                }
                switch action {
                case .handOn: continue
                case .awaitEarlier, .discard: return .awaitsEarlier
                case .finish(let ending): return .finished(ending)
                }
            }
            return nil
        }
    }

    private mutating func settle(
        _ number: UInt64,
        _ verdict: Verdict?,
        _ delivery: any DeliveryConnection
    ) -> Outcome? {
        guard let verdict else {
            return self.session.wait(for: number, isFull: delivery.isFull) == .stopReading ? .stopped : nil
        }
        switch self.session.settle(number, verdict) {
        case .none, .resumeReading: return nil
        case .stopReading: return .stopped
        case .awaitEarlier: return .awaitsEarlier
        case .finish(let ending): return .finished(ending)
        }
    }

    /// Throws away what was read and not taken.
    ///
    /// - Parameter isCounted: whether messages are counted, for which they are parsed.
    /// - Returns: how many whole messages were in it; 0 where they are not counted.
    mutating func discard(isCounted: Bool) -> Int {
        guard isCounted else {
            self.octets = FrameOctets()
            return 0
        }
        var count = 0
        while true {
            let (octets, messageCountMax) = self.octets.next
            var taken = 0
            do {
                try octets.withUnsafeReadableBytes { raw in
                    for _ in 0..<messageCountMax {
                        let rest = UnsafeRawBufferPointer(rebasing: raw[taken...])
                        guard let layout = try FrameLayout(parsing: rest, limits: self.limits) else { return }
                        taken += layout.octetCount
                        count += 1
                    }
                }
            } catch {
                // Behind octets that are no message, nothing can be told apart.
                self.octets = FrameOctets()
                return count
            }
            self.octets.take(octetCount: taken)
            guard taken > 0 || self.octets.extend() else { return count }
        }
    }
}
