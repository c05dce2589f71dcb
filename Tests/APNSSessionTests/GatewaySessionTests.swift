// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import Testing

/// Messages as a gateway may receive them.
enum GatewayFixture {
    static func message(
        _ identifier: UInt32?,
        command: Command = .enhanced,
        tokenByteCount: Int = 32,
        payload: String = "{}",
        priority: UInt8? = nil
    ) throws -> FrameLayout {
        let token = tokenByteCount == 0 ? nil : try DeviceToken(bytes: [UInt8](repeating: 7, count: tokenByteCount))
        let frame = NotificationFrame(
            token: token,
            payload: ByteBuffer(string: payload),
            expiry: command == .simple ? nil : 0,
            priority: priority,
            identifier: identifier,
            command: command
        )
        return try Self.layout(frame)
    }

    /// The layout of a frame after it is written.
    static func layout(_ frame: NotificationFrame) throws -> FrameLayout {
        var bytes = ByteBuffer()
        try frame.write(into: &bytes)
        let layout = try bytes.withUnsafeReadableBytes { try FrameLayout(parsing: $0, limits: FrameLimits()) }
        return try #require(layout)
    }

    static func ending(
        _ status: ErrorResponse.Status?,
        _ identifier: UInt32 = 0,
        at number: UInt64,
        closing: GatewayEnding.Closing? = nil,
        untold: ErrorResponse.Status? = nil,
        isStop: Bool = false
    ) -> GatewayEnding {
        GatewayEnding(
            response: status.map { ErrorResponse(status: $0, identifier: identifier) },
            number: number,
            closing: closing ?? (status == nil ? .reset : status == .shutdown ? .hold : .drain),
            status: status == .shutdown ? nil : status ?? untold,
            isStop: isStop
        )
    }
}

@Suite struct GatewaySessionTests {
    typealias Fixture = GatewayFixture

    /// Forwards messages with the identifiers from 101 and leaves them without an outcome.
    static func session(inFlight count: Int, inFlightCountMax: Int = 1000) throws -> GatewaySession {
        var session = GatewaySession(inFlightCountMax: inFlightCountMax, drainByteCountMax: 100)
        for number in 1...UInt64(max(count, 1)) where count > 0 {
            #expect(session.receive(try Fixture.message(100 + UInt32(number))) == .forward(number))
            #expect(session.wait(for: number) == (number == inFlightCountMax ? .stopReading : .none))
        }
        return session
    }

    struct Check: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var command = Command.items
        var tokenByteCount = 32
        var payload = "{}"
        var priority: UInt8?
        var isPayloadObject = true
        var status: ErrorResponse.Status?
    }

    static let checks: [Check] = [
        Check(testDescription: "a valid message", status: nil),
        Check(testDescription: "a probe", tokenByteCount: 0, payload: "", status: .missingDeviceToken),
        Check(
            testDescription: "the token is checked first",
            tokenByteCount: 0,
            payload: "x",
            priority: 1,
            isPayloadObject: false,
            status: .missingDeviceToken
        ),
        Check(
            testDescription: "a missing payload is checked before the length of the token",
            tokenByteCount: 33,
            payload: "",
            priority: 1,
            isPayloadObject: false,
            status: .missingPayload
        ),
        Check(
            testDescription: "the length of the token is checked before that of the payload",
            tokenByteCount: 33,
            payload: "{\"a\":1}",
            priority: 1,
            isPayloadObject: false,
            status: .invalidTokenSize
        ),
        Check(
            testDescription: "the length of the payload is checked before its content",
            payload: "{\"a\":1}",
            priority: 1,
            isPayloadObject: false,
            status: .invalidPayloadSize
        ),
        Check(
            testDescription: "commands 0 and 1 have a separate limit",
            command: .enhanced,
            payload: "{ }",
            status: .invalidPayloadSize
        ),
        Check(
            testDescription: "the content is checked before the priority",
            payload: "x",
            priority: 1,
            isPayloadObject: false,
            status: .processingError
        ),
        Check(testDescription: "priority 0", priority: 0, status: .unknown),
        Check(testDescription: "priority 1", priority: 1, status: .unknown),
        Check(testDescription: "priority 5", priority: 5, status: nil),
        Check(testDescription: "priority 10", priority: 10, status: nil),
    ]

    @Test(arguments: checks) func `a message is checked in the order the guide implies`(_ check: Check) throws {
        var rules = GatewayRules()
        rules.tokenByteCounts = 32...32
        rules.payloadByteCountMaxItems = 4
        rules.payloadByteCountMaxEnhanced = 2
        rules.priorityStatus = .unknown
        var session = GatewaySession(rules: rules)
        let message = try Fixture.message(
            9,
            command: check.command,
            tokenByteCount: check.tokenByteCount,
            payload: check.payload,
            priority: check.priority
        )
        let expected: GatewaySession.OnMessage =
            check.status.map { .finish(Fixture.ending($0, 9, at: 1)) } ?? .forward(1)
        #expect(session.receive(message, isPayloadObject: check.isPayloadObject) == expected)
    }

    @Test func `disabled checks accept messages`() throws {
        var rules = GatewayRules()
        rules.malformedPayloadStatus = nil
        var session = GatewaySession(rules: rules)
        let message = try Fixture.message(1, command: .items, payload: "x", priority: 77)
        #expect(session.receive(message, isPayloadObject: false) == .forward(1))
    }

    @Test(arguments: [0, 1, 2, 5, 7, 10, 255]) func `every priority is accepted by default`(_ priority: UInt8) throws {
        var session = GatewaySession()
        let message = try Fixture.message(1, command: .items, priority: priority)
        #expect(session.receive(message) == .forward(1))
    }

    @Test func `each failed check has a reason in words`() throws {
        var rules = GatewayRules()
        rules.tokenByteCounts = 32...32
        rules.payloadByteCountMaxItems = 4
        rules.priorityStatus = .unknown
        func reason(_ count: Int, _ payload: String, _ priority: UInt8? = nil, isObject: Bool = true) throws -> String?
        {
            let message = try Fixture.message(
                1,
                command: .items,
                tokenByteCount: count,
                payload: payload,
                priority: priority
            )
            return rules.reason(of: message, isPayloadObject: isObject)
        }
        #expect(try reason(32, "{}", 10) == nil)
        #expect(try reason(0, "", 7) == "the notification has no device token")
        #expect(try reason(32, "") == "the notification has no payload")
        #expect(try reason(33, "{}") == "the device token has 33 bytes, expected 32 to 32")
        #expect(try reason(32, "{   }") == "the payload has 5 bytes, the limit is 4")
        #expect(try reason(32, "no", 7, isObject: false) == "the payload is not a JSON object")
        #expect(try reason(32, "{}", 7) == "the priority is 7, expected 5 or 10")
    }

    @Test func `a faulty message is reported only when all before it are settled`() throws {
        var session = try Self.session(inFlight: 2)
        #expect(session.receive(try Fixture.message(103, tokenByteCount: 0, payload: "")) == .awaitEarlier)
        #expect(session.receive(try Fixture.message(104)) == .discard)
        #expect(session.settle(2, .accepted) == .none)
        #expect(
            session.settle(1, .rejected(.unregistered(at: Timestamp(secondsSince1970: 17))))
                == .finish(Fixture.ending(.missingDeviceToken, 103, at: 3))
        )
        #expect(session.acceptedCount == 2)
        #expect(session.receive(try Fixture.message(105)) == .discard)
    }

    @Test func `the lowest failing message is reported, whichever outcome comes first`() throws {
        var session = try Self.session(inFlight: 4)
        #expect(session.settle(4, .rejected(.binary(.invalidPayloadSize))) == .awaitEarlier)
        #expect(session.settle(2, .rejected(.binary(.invalidToken))) == .awaitEarlier)
        #expect(session.settle(3, .accepted) == .none)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(.invalidToken, 102, at: 2)))
        #expect(session.settle(3, .accepted) == .none)
        #expect(session.acceptedCount == 1)
    }

    @Test func `a second outcome of a message is ignored`() throws {
        var session = try Self.session(inFlight: 2)
        #expect(session.settle(2, .accepted) == .none)
        #expect(session.settle(2, .rejected(.binary(.invalidToken))) == .none)
        #expect(session.settle(1, .accepted) == .none)
        #expect(session.settle(1, .rejected(.binary(.invalidToken))) == .none)
        #expect(session.settle(99, .rejected(.binary(.invalidToken))) == .none)
        #expect(session.acceptedCount == 2)
    }

    @Test func `a faulty message of command 0 ends with a reset, without an answer`() throws {
        var local = GatewaySession()
        #expect(
            local.receive(try Fixture.message(nil, command: .simple, payload: ""))
                == .finish(Fixture.ending(nil, at: 1, untold: .missingPayload))
        )
        var rejected = GatewaySession()
        #expect(rejected.receive(try Fixture.message(nil, command: .simple)) == .forward(1))
        let ending = Fixture.ending(nil, at: 1, untold: .invalidToken)
        #expect(rejected.settle(1, .rejected(.binary(.invalidToken))) == .finish(ending))
        var unreadable = GatewaySession()
        #expect(
            unreadable.receive(
                WireError.payloadTooLong(announced: 3000, limit: 2048, identifier: nil),
                command: .simple
            )
                == .finish(Fixture.ending(nil, at: 1, untold: .invalidPayloadSize))
        )
    }

    @Test func `an unknown command ends with a reset after earlier messages are settled`() throws {
        var session = try Self.session(inFlight: 1)
        #expect(session.receive(WireError.unknownCommand(9), command: nil) == .awaitEarlier)
        #expect(session.receive(WireError.unknownCommand(9), command: nil) == .discard)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(nil, at: 2)))
    }

    @Test func `an invalid frame is reported with its identifier, or with 0 if it has none`() throws {
        var known = GatewaySession()
        #expect(
            known.receive(WireError.itemRepeated(item: 1, identifier: 5), command: .items)
                == .finish(Fixture.ending(.protocolError, 5, at: 1))
        )
        var unknown = GatewaySession()
        #expect(
            unknown.receive(WireError.frameTooLong(announced: 9000, limit: 8192), command: .items)
                == .finish(Fixture.ending(.protocolError, 0, at: 1))
        )
        var missing = GatewaySession()
        #expect(missing.receive(try Fixture.message(nil, command: .items)) == .forward(1))
        #expect(
            missing.settle(1, .rejected(.binary(.invalidToken))) == .finish(Fixture.ending(.invalidToken, 0, at: 1))
        )
    }

    @Test func `a service fault has the identifier of the last accepted message`() throws {
        var session = try Self.session(inFlight: 4)
        #expect(session.settle(3, .unsent(nil)) == .awaitEarlier)
        #expect(session.settle(2, .accepted) == .none)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(.shutdown, 102, at: 3)))
        var first = try Self.session(inFlight: 1)
        #expect(first.settle(1, .unsent(nil)) == .finish(Self.retry(101, at: 1)))
    }

    @Test func `where nothing was accepted, status 1 names the first message`() throws {
        for identifiers in [[0, 1, 2], [7], [.max - 1, .max, 0]] as [[UInt32]] {
            var session = GatewaySession()
            for (index, identifier) in identifiers.enumerated() {
                #expect(session.receive(try Fixture.message(identifier)) == .forward(UInt64(index + 1)))
            }
            let first = Self.retry(identifiers[0], at: 1)
            #expect(session.settle(1, .unsent(nil)) == .finish(first), "\(identifiers)")
        }
        var constant = GatewaySession()
        for number in 1...2 as ClosedRange<UInt64> {
            #expect(constant.receive(try Fixture.message(9)) == .forward(number))
        }
        #expect(constant.settle(1, .unsent(nil)) == .finish(Fixture.ending(nil, at: 1)))
    }

    @Test func `a provider that began to count again is not named a message from before`() throws {
        // The identifiers of several batches on one connection.
        for identifiers in [[1, 2, 3, 1, 2], [0, 1, 2, 0, 1], [7, 8, 9, 0, 1]] as [[UInt32]] {
            for accepted in 3...4 as ClosedRange<UInt64> {
                var session = GatewaySession()
                for (index, identifier) in identifiers.enumerated() {
                    #expect(session.receive(try Fixture.message(identifier)) == .forward(UInt64(index + 1)))
                }
                #expect(session.settle(accepted + 1, .unsent(nil)) == .awaitEarlier)
                for number in 1..<accepted { #expect(session.settle(number, .accepted) == .none) }
                // In the second case, the last accepted one may have an identifier of the first batch.
                let isUnique = identifiers.count { $0 == identifiers[Int(accepted) - 1] } == 1 && identifiers[3] != 0
                let ending =
                    accepted == 4 && isUnique
                    ? Fixture.ending(.shutdown, identifiers[3], at: 5)
                    : Self.retry(identifiers[Int(accepted)], at: accepted + 1)
                #expect(session.settle(accepted, .accepted) == .finish(ending), "\(identifiers) \(accepted)")
            }
        }
    }

    /// The end where the provider has to send everything again except the named message.
    private static func retry(_ identifier: UInt32, at number: UInt64) -> GatewayEnding {
        GatewayEnding(
            response: ErrorResponse(status: .processingError, identifier: identifier),
            number: number,
            closing: .hold
        )
    }

    @Test func `status 10 has no identifier that could mean another message`() throws {
        let received: [[UInt32?]] = [
            // The last accepted one was repeated later, or before; or it has none.
            [1, 2, 9, 2], [2, 2, 9], [1, nil, 9], [.max - 1, 5, 9, 5],
        ]
        for identifiers in received {
            var session = GatewaySession()
            for (index, identifier) in identifiers.enumerated() {
                let command = identifier == nil ? Command.simple : .enhanced
                let message = try Fixture.message(identifier, command: command)
                #expect(session.receive(message) == .forward(UInt64(index + 1)))
            }
            #expect(session.settle(3, .unsent(nil)) == .awaitEarlier)
            #expect(session.settle(1, .accepted) == .none)
            #expect(session.settle(2, .accepted) == .finish(Self.retry(9, at: 3)), "\(identifiers)")
        }
        // The repeated one was discarded without being processed.
        var session = try Self.session(inFlight: 2)
        session.discarded(identifier: 101)
        #expect(session.settle(2, .unsent(nil)) == .awaitEarlier)
        #expect(session.settle(1, .accepted) == .finish(Self.retry(102, at: 2)))
    }

    @Test func `a stop where nothing was discarded is not reported`() throws {
        var session = try Self.session(inFlight: 1)
        #expect(session.shutDown(isAnnounced: true) == .awaitEarlier)
        let ending = Fixture.ending(.shutdown, 101, at: 2, isStop: true)
        #expect(session.settle(1, .accepted) == .finish(ending))
        #expect(ending.carriedOut(hasDiscarded: true, isInputClosed: true) == ending)
        let silent = Fixture.ending(nil, at: 2, closing: .orderly, isStop: true)
        #expect(ending.carriedOut(hasDiscarded: false, isInputClosed: true) == silent)
        // What the provider is writing may be on its way.
        let reset = Fixture.ending(nil, at: 2, closing: .reset, isStop: true)
        #expect(ending.carriedOut(hasDiscarded: false, isInputClosed: false) == reset)
        let rejected = Fixture.ending(.invalidToken, 1, at: 1)
        #expect(rejected.carriedOut(hasDiscarded: false, isInputClosed: false) == rejected)
    }

    @Test func `a provider that never reads gets a reset instead of status 10, without waiting`() throws {
        let reset = Fixture.ending(nil, at: 2, closing: .reset)
        for outcome in [.unsent(nil), .unsent(.notPermitted(ConnectionFailure(.identity, "")))] as [DeliveryOutcome] {
            var session = Self.ignoring()
            for number in 1...3 as ClosedRange<UInt32> { _ = session.receive(try Fixture.message(number)) }
            #expect(session.settle(2, outcome) == .finish(reset))
            #expect(session.settle(1, .accepted) == .none)
        }
        var stopped = Self.ignoring()
        _ = stopped.receive(try Fixture.message(1))
        #expect(
            stopped.shutDown(isAnnounced: true) == .finish(reset)
        )
        var unknown = Self.ignoring()
        _ = unknown.receive(try Fixture.message(1))
        #expect(unknown.settle(1, .indeterminate(nil)) == .none)
        #expect(unknown.acceptedCount == 1)
        #expect(unknown.receive(.unknownCommand(9), command: nil) == .finish(reset))
    }

    @Test func `an unknown outcome ends with a reset, also after the provider has closed its side`() throws {
        var session = try Self.session(inFlight: 2)
        #expect(session.inputClosed() == .awaitEarlier)
        #expect(session.settle(1, .accepted) == .none)
        // Without it, the provider would take everything for accepted.
        #expect(session.settle(2, .indeterminate(nil)) == .finish(Fixture.ending(nil, at: 2, closing: .reset)))
    }

    @Test
    func `without an error response, what was not accepted ends with a reset after the provider has closed its side`()
        throws
    {
        // A provider that is never told.
        var ignoring = Self.ignoring()
        for number in 1...2 as ClosedRange<UInt32> { _ = ignoring.receive(try Fixture.message(number)) }
        #expect(ignoring.inputClosed() == .awaitEarlier)
        #expect(ignoring.settle(2, .unsent(nil)) == .finish(Fixture.ending(nil, at: 2, closing: .reset)))
        // No identifier that means one message.
        var simple = GatewaySession()
        for _ in 1...2 { _ = simple.receive(try Fixture.message(nil, command: .simple)) }
        #expect(simple.inputClosed() == .awaitEarlier)
        #expect(simple.settle(2, .unsent(nil)) == .awaitEarlier)
        #expect(simple.settle(1, .accepted) == .finish(Fixture.ending(nil, at: 2, closing: .reset)))
        // A rejection that command 0 cannot report.
        var rejected = GatewaySession()
        _ = rejected.receive(try Fixture.message(nil, command: .simple))
        #expect(rejected.inputClosed() == .awaitEarlier)
        let ending = Fixture.ending(nil, at: 1, closing: .reset, untold: .invalidToken)
        #expect(rejected.settle(1, .rejected(.binary(.invalidToken))) == .finish(ending))
        // Bytes that are no message.
        var garbage = try Self.session(inFlight: 1)
        #expect(garbage.receive(.unknownCommand(9), command: nil) == .awaitEarlier)
        #expect(garbage.inputClosed() == .awaitEarlier)
        #expect(garbage.settle(1, .accepted) == .finish(Fixture.ending(nil, at: 2, closing: .reset)))
        // A message that has not arrived completely.
        var partial = try Self.session(inFlight: 1)
        #expect(partial.inputClosed(isIncomplete: true) == .awaitEarlier)
        #expect(partial.settle(1, .accepted) == .finish(Fixture.ending(nil, at: 2, closing: .reset)))
        var lone = GatewaySession()
        #expect(lone.inputClosed(isIncomplete: true) == .reset)
        // A stop that discarded something, without an identifier that means one message.
        var stopped = GatewaySession()
        _ = stopped.receive(try Fixture.message(nil, command: .simple))
        #expect(stopped.shutDown(isAnnounced: true) == .awaitEarlier)
        #expect(stopped.inputClosed() == .awaitEarlier)
        guard case .finish(let end) = stopped.settle(1, .accepted) else { return #expect(Bool(false)) }
        #expect(end.carriedOut(hasDiscarded: true, isInputClosed: true).closing == .reset)
        #expect(end.carriedOut(hasDiscarded: false, isInputClosed: true).closing == .orderly)
    }

    @Test func `a service that permits nobody ends the connection like one that is unreachable`() throws {
        var session = try Self.session(inFlight: 3)
        #expect(session.settle(2, .unsent(.notPermitted(ConnectionFailure(.identity, "")))) == .awaitEarlier)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(.shutdown, 101, at: 2)))
        var first = try Self.session(inFlight: 2)
        #expect(first.settle(2, .unsent(.notPermitted(ConnectionFailure(.identity, "")))) == .awaitEarlier)
        #expect(
            first.settle(1, .unsent(.notPermitted(ConnectionFailure(.identity, ""))))
                == .finish(Self.retry(101, at: 1))
        )
    }

    @Test func `the last message counts as accepted, and nothing after it`() throws {
        var session = try Self.session(inFlight: 3)
        #expect(session.settle(3, .accepted) == .none)
        #expect(session.settle(2, .accepted, isLast: true) == .awaitEarlier)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(.shutdown, 102, at: 3)))
        #expect(session.acceptedCount == 2)
    }

    @Test func `reading stops at the limit of messages in flight, and resumes when half are settled`() throws {
        var session = try Self.session(inFlight: 4, inFlightCountMax: 4)
        #expect(session.inFlightCount == 4)
        #expect(session.settle(2, .accepted) == .none)
        #expect(session.settle(3, .accepted) == .none)
        #expect(session.settle(1, .accepted) == .resumeReading)
        #expect(session.receive(try Fixture.message(105)) == .forward(5))
        var strict = try Self.session(inFlight: 1, inFlightCountMax: 1)
        #expect(strict.settle(1, .accepted) == .resumeReading)
        #expect(strict.receive(try Fixture.message(102)) == .forward(2))
        #expect(strict.settle(2, .accepted) == .none)
    }

    @Test func `messages accepted after one that waits count as in flight`() throws {
        var session = try Self.session(inFlight: 1, inFlightCountMax: 2)
        #expect(session.receive(try Fixture.message(102)) == .forward(2))
        #expect(session.settle(2, .accepted) == .stopReading)
        #expect(session.settle(1, .accepted) == .resumeReading)
    }

    @Test func `the end resumes reading that was stopped`() throws {
        var session = try Self.session(inFlight: 2, inFlightCountMax: 2)
        #expect(session.settle(2, .rejected(.binary(.invalidToken))) == .awaitEarlier)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(.invalidToken, 102, at: 2)))
    }

    @Test func `a provider that closes its side still gets its response`() throws {
        var session = try Self.session(inFlight: 2)
        #expect(session.inputClosed() == .awaitEarlier)
        #expect(session.settle(2, .rejected(.binary(.invalidToken))) == .awaitEarlier)
        #expect(
            session.settle(1, .accepted) == .finish(Fixture.ending(.invalidToken, 102, at: 2, closing: .orderly))
        )
        #expect(session.inputClosed() == .none)
        var idle = GatewaySession()
        #expect(idle.inputClosed() == .close)
        #expect(idle.inputClosed() == .none)
        var taken = try Self.session(inFlight: 1)
        #expect(taken.inputClosed() == .awaitEarlier)
        #expect(taken.settle(1, .accepted) == .finish(Fixture.ending(nil, at: 2, closing: .orderly)))
    }

    @Test func `a provider that closes while the end is pending gets the end`() throws {
        var session = try Self.session(inFlight: 1)
        #expect(session.receive(try Fixture.message(102, payload: "")) == .awaitEarlier)
        #expect(session.inputClosed() == .awaitEarlier)
        #expect(session.settle(1, .accepted) == .finish(Fixture.ending(.missingPayload, 102, at: 2, closing: .orderly)))
    }

    @Test func `a shutdown waits for messages in flight`() throws {
        var announced = try Self.session(inFlight: 2)
        #expect(announced.shutDown(isAnnounced: true) == .awaitEarlier)
        #expect(announced.receive(try Fixture.message(103)) == .discard)
        #expect(announced.shutDown(isAnnounced: true) == .none)
        #expect(announced.settle(1, .accepted) == .none)
        #expect(announced.settle(2, .accepted) == .finish(Fixture.ending(.shutdown, 102, at: 3, isStop: true)))
        var silent = try Self.session(inFlight: 0)
        #expect(silent.shutDown(isAnnounced: false) == .finish(Fixture.ending(nil, at: 1)))
        var rejected = try Self.session(inFlight: 1)
        #expect(rejected.shutDown(isAnnounced: true) == .awaitEarlier)
        #expect(
            rejected.settle(1, .rejected(.binary(.invalidToken))) == .finish(Fixture.ending(.invalidToken, 101, at: 1))
        )
    }

    @Test func `input after the end is discarded within limits`() throws {
        var bytes = try Self.session(inFlight: 1)
        #expect(bytes.discarded(byteCount: 1000) == .none)
        #expect(bytes.drainDeadlinePassed() == .none)
        #expect(
            bytes.settle(1, .rejected(.binary(.invalidToken))) == .finish(Fixture.ending(.invalidToken, 101, at: 1))
        )
        #expect(bytes.settle(1, .accepted) == .none)
        #expect(bytes.shutDown(isAnnounced: true) == .none)
        #expect(bytes.discarded(byteCount: 99) == .none)
        #expect(bytes.discarded(byteCount: 1) == .close)
        #expect(bytes.discarded(byteCount: 1) == .none)
        #expect(bytes.drainDeadlinePassed() == .none)
        var time = try Self.session(inFlight: 1)
        #expect(time.settle(1, .unsent(nil)) == .finish(Self.retry(101, at: 1)))
        #expect(time.drainDeadlinePassed() == .close)
        var provider = try Self.session(inFlight: 1)
        #expect(provider.settle(1, .unsent(nil)) == .finish(Self.retry(101, at: 1)))
        #expect(provider.inputClosed() == .close)
    }

    @Test func `outcomes on a lost connection are ignored`() throws {
        var session = try Self.session(inFlight: 2)
        session.connectionLost()
        #expect(session.settle(1, .accepted) == .none)
        #expect(session.settle(2, .rejected(.binary(.invalidToken))) == .none)
        #expect(session.receive(try Fixture.message(103)) == .discard)
        #expect(session.receive(WireError.unknownCommand(3), command: nil) == .discard)
        #expect(session.inputClosed() == .none)
        #expect(session.wait(for: 2) == .none)
    }

    @Test func `a message while reading is stopped is a programming error`() async {
        await #expect(processExitsWith: .failure) {
            var session = GatewaySession(inFlightCountMax: 1)
            _ = session.receive(try GatewayFixture.message(1))
            _ = session.wait(for: 1)
            _ = session.receive(try GatewayFixture.message(2))
        }
    }

    // MARK: Rejections that are not reported

    private static func ignoring() -> GatewaySession {
        var session = GatewaySession()
        session.rejectionPolicy = .ignore
        return session
    }

    @Test func `a faulty message is skipped if it is not reported`() throws {
        var session = Self.ignoring()
        #expect(session.receive(try Fixture.message(1)) == .forward(1))
        let empty = FrameLayout(command: .enhanced)
        var noPayload = empty
        noPayload.tokenByteCount = 32
        #expect(session.receive(noPayload) == .skip(.missingPayload))
        let tooLong = WireError.payloadTooLong(announced: 3000, limit: 2048, identifier: 7)
        #expect(session.receive(tooLong, command: .enhanced) == .skip(.invalidPayloadSize))
        let items = WireError.frameTooLong(announced: 10_000, limit: 8192)
        #expect(session.receive(items, command: .items) == .skip(.protocolError))
        #expect(session.receive(try Fixture.message(2)) == .forward(2))
        #expect(session.settle(1, .rejected(.binary(.invalidToken))) == .none)
        #expect(session.settle(2, .accepted) == .none)
        #expect(session.acceptedCount == 2)
        // A probe requests an answer.
        guard case .finish(let ending) = session.receive(empty) else {
            Issue.record("the probe has no answer")
            return
        }
        #expect(ending.response?.status == .missingDeviceToken)
    }

    @Test(arguments: [ErrorResponse.Status.missingTopic, .invalidTopicSize])
    func `an invalid topic is reported even if faults are not`(
        _ status: ErrorResponse.Status
    ) throws {
        var session = Self.ignoring()
        #expect(session.receive(try Fixture.message(1)) == .forward(1))
        #expect(session.settle(1, .rejected(.binary(status))) == .finish(Fixture.ending(status, 1, at: 1)))
    }

    @Test func `an answer of the HTTP API becomes a status of the binary protocol`() throws {
        let outcomes: [(DeliveryOutcome, ErrorResponse.Status)] = [
            (.rejected(.http2(PushRejection(status: 400, reason: .badDeviceToken))), .invalidToken),
            (.rejected(.http2(PushRejection(status: 413, reason: .payloadTooLarge))), .invalidPayloadSize),
            (.rejected(.http2(PushRejection(status: 400, reason: .badPath))), .processingError),
            (.invalid(.payloadTooLong(byteCount: 5000, limit: 4096)), .invalidPayloadSize),
        ]
        for (outcome, status) in outcomes {
            var session = GatewaySession()
            #expect(session.receive(try Fixture.message(1)) == .forward(1))
            #expect(session.settle(1, outcome) == .finish(Fixture.ending(status, 1, at: 1)))
        }
    }

    @Test func `input that cannot be skipped ends the connection even if faults are not reported`() {
        var session = Self.ignoring()
        let absurd = WireError.frameTooLong(announced: .max, limit: 8192)
        guard case .finish(let ending) = session.receive(absurd, command: .items) else {
            Issue.record("4 GB are skipped")
            return
        }
        #expect(ending.status == .protocolError)
        var other = Self.ignoring()
        guard case .finish(let silent) = other.receive(.unknownCommand(77), command: nil) else {
            Issue.record("a byte that is not a command is skipped")
            return
        }
        #expect(silent.response == nil)
    }

    @Test func `the end has the status of a faulty message of command 0, which is not reported`() throws {
        var session = GatewaySession()
        var layout = FrameLayout(command: .simple)
        layout.tokenByteCount = 32
        guard case .finish(let ending) = session.receive(layout) else {
            Issue.record("no end")
            return
        }
        #expect(ending.response == nil)
        #expect(ending.status == .missingPayload)
    }
}
