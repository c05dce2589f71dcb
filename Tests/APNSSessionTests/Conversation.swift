// SPDX-License-Identifier: Apache-2.0

public import APNSSession
import APNSWire

extension ConnectionNumber: ExpressibleByIntegerLiteral {
    /// Creates a number.
    public init(integerLiteral value: UInt64) { self.init(rawValue: value) }
}

extension ErrorResponse {
    init(_ status: Status, _ identifier: UInt32) { self.init(status: status, identifier: identifier) }
}

extension Settlement {
    init(_ numbers: Range<UInt64>, _ outcome: DeliveryOutcome, attempts: Int, isDuplicate: Bool = false) {
        let report = DeliveryReport(outcome, attempts: attempts, isPossibleDuplicate: isDuplicate)
        self.init(numbers: numbers, report: report)
    }
}

extension ProviderSession {
    /// A session with an open first connection and this many notifications written to it.
    init(written count: UInt64, limits: BinaryLimits = BinaryLimits(), now: Duration = .zero) {
        self.init(limits: limits)
        _ = self.step(now: now)
        self.connected(1, now: now)
        _ = self.step(now: now)
        self.wrote(count, now: now)
    }

    /// The gateway answers.
    mutating func receive(_ status: ErrorResponse.Status, _ identifier: UInt32, on number: ConnectionNumber) {
        self.received(ErrorResponse(status, identifier), on: number, now: .zero, jitter: 1)
    }

    /// A connection ends without an answer.
    mutating func die(_ number: ConnectionNumber, now: Duration = .zero) {
        self.closed(number, now: now, jitter: 1)
    }

    /// Closes connections as requested, opens the next one, and returns the step after that.
    mutating func stepOnNextConnection(now: Duration) -> ProviderStep {
        for _ in 0..<20 {
            let step = self.step(now: now)
            switch step {
            case .close(let number): self.closed(number, now: now, jitter: 1)
            case .connect(let number): self.connected(number, now: now)
            default: return step
            }
        }
        return .wait(until: nil)
    }
}

/// A whole session with a gateway that answers immediately, by a closure.
struct Conversation {
    /// What the gateway does after a write or a probe.
    enum Reply {
        case silence
        case answer(ErrorResponse)
        case end
    }

    var session: ProviderSession
    var now = Duration.zero
    /// The numbers of each write, in order.
    var writes: [Range<UInt64>] = []
    var settlements: [Settlement] = []
    private let count: UInt64
    private let gateway: (_ written: [UInt64], _ probe: UInt32?) -> Reply
    private var written: [ConnectionNumber: [UInt64]] = [:]

    /// - Parameters:
    ///   - count: the number of notifications.
    ///   - limits: the limits of the session.
    ///   - gateway: receives the numbers written to a connection, and the identifier of the probe after them.
    init(
        count: UInt64,
        limits: BinaryLimits,
        gateway: @escaping (_ written: [UInt64], _ probe: UInt32?) -> Reply
    ) {
        self.session = ProviderSession(limits: limits)
        self.count = count
        self.gateway = gateway
    }

    /// Runs to the end; `nil` if it does not end.
    mutating func run() -> ProviderEnding? {
        for _ in 0..<100_000 {
            defer { self.settlements += self.session.takeSettlements() }
            switch self.session.step(now: self.now) {
            case .connect(let number): self.session.connected(number, now: self.now)
            case .write(let number, let numbers, _): self.write(numbers, to: number)
            case .probe(let number, let identifier): self.reply(number, probe: identifier)
            case .close(let number): self.session.closed(number, now: self.now, jitter: 1)
            case .wait(let time?): self.now = time
            case .wait: return nil
            case .finish(let ending): return ending
            }
        }
        return nil
    }

    private mutating func write(_ numbers: Range<UInt64>, to number: ConnectionNumber) {
        let end = min(numbers.upperBound, self.count)
        guard end > numbers.lowerBound else { return self.session.supply(.ended) }
        let part = numbers.lowerBound..<end
        self.session.wrote(UInt64(part.count), now: self.now)
        self.session.sent(number, before: end)
        self.writes.append(part)
        self.written[number, default: []] += Array(part)
        self.reply(number, probe: nil)
    }

    private mutating func reply(_ number: ConnectionNumber, probe: UInt32?) {
        switch self.gateway(self.written[number, default: []], probe) {
        case .silence: break
        case .answer(let response): self.session.received(response, on: number, now: self.now, jitter: 1)
        case .end: self.session.closed(number, now: self.now, jitter: 1)
        }
    }
}
