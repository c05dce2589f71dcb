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
    private let countsDiscarded: Bool
    private var octets = FrameOctets()

    init(_ configuration: BinaryFrontConfiguration, requiresOrder: Bool) {
        self.session = GatewaySession(
            rules: configuration.rules,
            inFlightCountMax: requiresOrder ? 1 : configuration.inFlightCountMax,
            drainOctetCountMax: configuration.drainOctetCountMax
        )
        self.limits = configuration.limits
        self.payloadCheck = configuration.payloadCheck
        self.countsDiscarded = configuration.countsDiscarded
    }

    mutating func append(_ octets: consuming ByteBuffer) {
        self.octets.append(octets)
    }

    /// Hands on all whole messages.
    mutating func take(for delivery: any DeliveryConnection, inbox: VerdictInbox) -> Outcome {
        while true {
            let action: GatewaySession.OnMessage
            do {
                guard let frame = try self.octets.next(limits: self.limits) else { return .drained }
                let isObject = self.payloadCheck.passes(frame.payload)
                action = self.session.receive(frame, isPayloadObject: isObject)
                if case .handOn(let number) = action, let token = frame.token {
                    let notification = Notification(
                        token: token,
                        payload: frame.payload,
                        expiry: frame.expiry,
                        priority: frame.priority
                    )
                    let ticket = DeliveryTicket(number: number, identifier: frame.identifier, inbox: inbox)
                    let verdict = delivery.deliver(notification, ticket: ticket)
                    if let outcome = self.settle(number, verdict) { return outcome }
                    continue
                }
            } catch {
                action = self.session.receive(error, command: self.octets.nextCommand)
            }
            switch action {
            case .handOn: continue
            case .awaitEarlier, .discard: return .awaitsEarlier
            case .finish(let ending): return .finished(ending)
            }
        }
    }

    private mutating func settle(_ number: UInt64, _ verdict: Verdict?) -> Outcome? {
        guard let verdict else { return self.session.wait(for: number) == .stopReading ? .stopped : nil }
        switch self.session.settle(number, verdict) {
        case .none, .resumeReading: return nil
        case .stopReading: return .stopped
        case .awaitEarlier: return .awaitsEarlier
        case .finish(let ending): return .finished(ending)
        }
    }

    /// Throws away what was read and not taken.
    ///
    /// - Returns: how many whole messages were in it, where that is counted.
    mutating func discard() -> Int {
        guard self.countsDiscarded else {
            self.octets = FrameOctets()
            return 0
        }
        var count = 0
        do {
            while try self.octets.next(limits: self.limits) != nil { count += 1 }
        } catch {
            // Behind octets that are no message, nothing can be told apart.
            self.octets = FrameOctets()
        }
        return count
    }
}
