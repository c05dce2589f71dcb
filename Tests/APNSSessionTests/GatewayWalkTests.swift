// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import TestSupport
import Testing

/// Goal: no order of messages, outcomes and ends violates the guarantees of the protocol to a provider.
///
/// Method: a random walk from a seed over messages with predetermined outcomes; the expected result is computed from
/// the list alone, without the state machine: the end is at the first message that fails, or where the connection was
/// ended.
@Suite struct GatewayWalkTests {
    /// One message of the walk with its future outcome.
    struct Step {
        enum Kind { case good, probe, empty, broken, unknown }
        var kind: Kind
        var command: Command
        var identifier: UInt32?
        var outcome: DeliveryOutcome
        /// Whether it is the last accepted message.
        var isLast = false

        init(number: UInt32, numbering: Numbering, failurePerThousand: Int, random: inout SplitMix64) {
            self.command = Command.allCases.randomElement(using: &random) ?? .enhanced
            if !numbering.hasOtherCommands { self.command = .enhanced }
            let hasIdentifier = self.command == .enhanced || self.command == .items && random.chance(9, of: 10)
            self.identifier = hasIdentifier ? numbering.identifier(number, &random) : nil
            self.kind = .good
            self.outcome =
                random.chance(1, of: 5)
                ? [.rejected(.unregistered(at: Timestamp(secondsSince1970: 9))), .suppressed][random.below(2)]
                : .accepted
            guard random.chance(failurePerThousand, of: 1000) else { return }
            let kinds: [Kind] = [.good, .good, .good, .probe, .empty, .broken, .unknown]
            self.kind = kinds.randomElement(using: &random) ?? .good
            let outcomes: [DeliveryOutcome] = [
                .rejected(.binary(.invalidToken)), .rejected(.binary(.processingError)), .unsent(nil),
                .unsent(.notPermitted(ConnectionFailure(.identity, ""))), .accepted, .indeterminate(nil),
            ]
            self.outcome = outcomes.randomElement(using: &random) ?? .unsent(nil)
            self.isLast = self.outcome == .accepted
        }

        var frame: NotificationFrame {
            get throws {
                NotificationFrame(
                    token: self.kind == .probe ? nil : try DeviceToken(bytes: [1, 2, 3]),
                    payload: self.kind == .good ? ByteBuffer(string: "{}") : ByteBuffer(),
                    identifier: self.identifier,
                    command: self.command
                )
            }
        }
    }

    /// How a provider numbers its messages.
    enum Numbering: CaseIterable {
        case fromZero, fromOne, withGaps, wrapping, lowByteFirst, constant, repeating, random

        var hasOtherCommands: Bool { self == .withGaps || self == .wrapping || self == .repeating }

        /// Returns the identifier of a message by its number, from 1.
        func identifier(_ number: UInt32, _ random: inout SplitMix64) -> UInt32 {
            switch self {
            case .fromZero: number - 1
            case .fromOne: number
            case .withGaps: number &* 7
            case .wrapping: number &- 5
            case .lowByteFirst: (number - 1).byteSwapped
            case .constant: 1234
            case .repeating: number % 20
            case .random: UInt32.random(in: 0...200, using: &random)
            }
        }
    }

    /// The expected result for a list of messages.
    struct Contract {
        var response: ErrorResponse?
        var number: UInt64

        /// - Parameters:
        ///   - steps: everything that was received before the connection was ended from outside.
        ///   - discarded: the identifiers of messages that were discarded after these.
        ///   - isAnnounced: whether that end is reported.
        init(_ steps: [Step], discarded: [UInt32], isAnnounced: Bool) {
            // A message that was not a message has no known identifier. Those of discarded ones come last.
            let known = steps.map { $0.kind == .broken || $0.kind == .unknown ? nil : $0.identifier } + discarded
            let isSwapped = Self.isSwapped(known.compactMap { $0 })
            let numbers = known.map { $0.map { isSwapped ? $0.byteSwapped : $0 } }
            var (runStart, previous) = (0, UInt32?.none)
            for (index, number) in numbers.enumerated() {
                guard let number else { continue }
                if let before = previous, number <= 1, number < before, before != .max { runStart = index }
                previous = number
            }
            var last: UInt32?
            self.number = 1
            func shutdown(accepted: Int, last: UInt32?, next: UInt32?) -> ErrorResponse? {
                if accepted > runStart, let last, last != 0, known.count(where: { $0 == last }) == 1 {
                    return ErrorResponse(status: .shutdown, identifier: last)
                }
                guard accepted >= runStart, let next, known[runStart...].count(where: { $0 == next }) == 1 else {
                    return nil
                }
                return ErrorResponse(status: .processingError, identifier: next)
            }
            for (index, step) in steps.enumerated() {
                let isSilent = step.command == .simple
                func told(_ status: ErrorResponse.Status) -> ErrorResponse? {
                    isSilent ? nil : ErrorResponse(status: status, identifier: step.identifier ?? 0)
                }
                switch (step.kind, step.outcome) {
                case (.probe, _): self.response = told(.missingDeviceToken)
                case (.empty, _): self.response = told(.missingPayload)
                case (.broken, _): self.response = told(.protocolError)
                case (.unknown, _): self.response = nil
                case (.good, .rejected(.binary(let status))): self.response = told(status)
                case (.good, .unsent):
                    self.response = shutdown(accepted: Int(self.number) - 1, last: last, next: step.identifier)
                case (.good, .indeterminate): self.response = nil
                case (.good, _) where step.isLast:
                    self.number += 1
                    self.response = shutdown(
                        accepted: Int(self.number) - 1,
                        last: step.identifier,
                        next: index + 1 < steps.count && steps[index + 1].kind == .good
                            ? steps[index + 1].identifier : nil
                    )
                case (.good, _):
                    last = step.identifier
                    self.number += 1
                    continue
                }
                return
            }
            self.response = isAnnounced ? shutdown(accepted: Int(self.number) - 1, last: last, next: nil) : nil
        }

        /// Whether a provider counts in little-endian byte order, judged by its first two identifiers.
        private static func isSwapped(_ identifiers: [UInt32]) -> Bool {
            guard identifiers.count > 1 else { return false }
            let (first, second) = (identifiers[0], identifiers[1])
            return second != first &+ 1 && second.byteSwapped == first.byteSwapped &+ 1
        }
    }

    /// A walk in progress.
    struct Walk: ~Copyable {
        var session: GatewaySession
        var random: SplitMix64
        let inFlightCountMax: Int
        var received: [Step] = []
        /// The identifiers of messages that were discarded.
        var discarded: [UInt32] = []
        var waiting: [UInt64] = []
        var forwarded: [UInt64] = []
        var knownFailure: UInt64 = .max
        var isReading = true
        var isDiscarding = false
        var endings: [GatewayEnding] = []
        var isEnded: Bool { !self.endings.isEmpty }

        init(seed: UInt64) {
            self.random = SplitMix64(seed: seed)
            let windows = [1, 1, 2, 3, 5, 17, 64]
            self.inFlightCountMax = windows.randomElement(using: &self.random) ?? 1
            self.session = GatewaySession(inFlightCountMax: self.inFlightCountMax)
        }

        mutating func receive(_ step: Step) throws {
            guard self.isReading else { return }
            if !self.isDiscarding {
                self.received.append(step)
            } else if let identifier = step.identifier, step.kind != .broken, step.kind != .unknown {
                self.discarded.append(identifier)
            }
            let action: GatewaySession.OnMessage
            switch step.kind {
            case .good, .probe, .empty: action = self.session.receive(try GatewayFixture.layout(step.frame))
            case .broken:
                let error = WireError.itemWidth(item: 4, announced: 3, identifier: step.identifier)
                action = self.session.receive(error, command: step.command)
            case .unknown: action = self.session.receive(.unknownCommand(77), command: nil)
            }
            switch action {
            case .forward(let number): self.take(number)
            case .awaitEarlier: self.isDiscarding = true
            case .finish(let ending): self.endings.append(ending)
            case .discard: #expect(self.isDiscarding || self.isEnded)
            case .skip: Issue.record("a message is skipped although its refusal must be reported")
            }
        }

        mutating func take(_ number: UInt64) {
            #expect(number == UInt64(self.received.count))
            #expect(number < self.knownFailure)
            self.forwarded.append(number)
            #expect(self.session.inFlightCount <= self.inFlightCountMax)
            guard self.random.chance(1, of: 2) else { return self.settle(number) }
            self.waiting.append(number)
            if self.session.wait(for: number) == .stopReading { self.isReading = false }
        }

        mutating func settleAny() {
            guard let index = self.waiting.indices.randomElement(using: &self.random) else { return }
            self.settle(self.waiting.remove(at: index))
        }

        mutating func settle(_ number: UInt64) {
            let step = self.received[Int(number) - 1]
            switch step.outcome {
            case .rejected(.binary), .unsent, .indeterminate: self.knownFailure = min(self.knownFailure, number)
            case _ where step.isLast: self.knownFailure = min(self.knownFailure, number + 1)
            default: break
            }
            switch self.session.settle(number, step.outcome, isLast: step.isLast) {
            case .none: break
            case .stopReading: self.isReading = false
            case .resumeReading: self.isReading = true
            case .awaitEarlier: (self.isReading, self.isDiscarding) = (true, true)
            case .finish(let ending): self.endings.append(ending)
            }
        }
    }

    @Test(arguments: 0..<50 as Range<UInt64>)
    func `every walk keeps the guarantees of the protocol`(part: UInt64) throws {
        let count: UInt64 = TestEffort.count(15, long: 100)
        for seed in count * part..<count * (part + 1) { try Self.walk(seed: seed) }
    }

    private static func walk(seed: UInt64) throws {
        var walk = Walk(seed: seed)
        let failurePerThousand = [0, 5, 50, 300].randomElement(using: &walk.random) ?? 5
        let numbering = Numbering.allCases.randomElement(using: &walk.random) ?? .fromOne
        let count = Int.random(in: 1...120, using: &walk.random)
        for number in 1...count where !walk.isEnded {
            if walk.random.chance(1, of: 3) { walk.settleAny() }
            while !walk.isReading, !walk.isEnded { walk.settleAny() }
            guard !walk.isEnded else { break }
            try walk.receive(
                Step(
                    number: UInt32(number),
                    numbering: numbering,
                    failurePerThousand: failurePerThousand,
                    random: &walk.random
                )
            )
        }
        let isAnnounced = walk.random.chance(1, of: 2)
        if !walk.isEnded {
            switch walk.session.shutDown(isAnnounced: isAnnounced) {
            case .finish(let ending): walk.endings.append(ending)
            case .awaitEarlier, .none: #expect(!walk.waiting.isEmpty)
            }
        }
        while !walk.waiting.isEmpty { walk.settleAny() }
        let contract = Contract(walk.received, discarded: walk.discarded, isAnnounced: isAnnounced)
        let ending = try #require(walk.endings.first, "seed \(seed)")
        #expect(walk.endings.count == 1, "seed \(seed)")
        #expect(ending.response == contract.response, "seed \(seed)")
        #expect(ending.number == contract.number, "seed \(seed)")
        #expect(walk.session.acceptedCount == contract.number - 1, "seed \(seed)")
        if walk.inFlightCountMax == 1 {
            #expect(
                walk.forwarded.allSatisfy { $0 <= contract.number },
                "seed \(seed): forwarded after the failing one"
            )
        }
    }

    /// Goal: the result does not depend on how the bytes of a stream are split.
    ///
    /// Method: the same stream whole and byte by byte through the parser into two machines.
    @Test(arguments: 0..<200 as Range<UInt64>) func `a stream received byte by byte ends like one received at once`(
        seed: UInt64
    )
        throws
    {
        var random = SplitMix64(seed: seed)
        var stream = ByteBuffer()
        for number in 1...20 {
            let step = Step(number: UInt32(number), numbering: .withGaps, failurePerThousand: 60, random: &random)
            switch step.kind {
            case .unknown: stream.writeInteger(99 as UInt8)
            case .broken: stream.writeBytes([2, 0, 0, 0, 2, 1, 0])
            case .good, .probe, .empty: try step.frame.write(into: &stream)
            }
        }
        let whole = Self.run([stream], seed: seed)
        let dripped = Self.run(stream.readableBytesView.map { ByteBuffer(bytes: [$0]) }, seed: seed)
        #expect(whole == dripped, "seed \(seed)")
        #expect(whole.endings.count <= 1, "seed \(seed)")
    }

    struct Run: Equatable {
        var forwarded: [UInt64] = []
        var endings: [GatewayEnding] = []
    }

    static func run(_ pieces: [ByteBuffer], seed: UInt64) -> Run {
        var session = GatewaySession()
        var run = Run()
        var buffer = ByteBuffer()
        var isOver = false
        for piece in pieces where !isOver {
            buffer.writeImmutableBuffer(piece)
            while !isOver {
                let command = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self).flatMap(Command.init)
                let action: GatewaySession.OnMessage
                do {
                    let layout = try buffer.withUnsafeReadableBytes { bytes throws(WireError) in
                        try FrameLayout(parsing: bytes, limits: FrameLimits())
                    }
                    guard let layout else { break }
                    buffer.moveReaderIndex(forwardBy: layout.byteCount)
                    action = session.receive(layout)
                } catch {
                    action = session.receive(error, command: command)
                }
                guard case .forward(let number) = action else {
                    if case .finish(let ending) = action { run.endings.append(ending) }
                    isOver = true
                    break
                }
                run.forwarded.append(number)
                let isRejected = (number &+ seed) % 13 == 0
                if case .finish(let ending) = session.settle(
                    number,
                    isRejected ? .rejected(.binary(.invalidToken)) : .accepted
                ) {
                    run.endings.append(ending)
                    isOver = true
                }
            }
        }
        return run
    }
}
