// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import TestSupport
import Testing

private typealias Wire = HTTP2Wire

/// A client, over TLS, with a service that violates the protocol; the cases are also in ``HostileServiceTests``.
@Suite("A service that violates the protocol", .timeLimit(.minutes(1)))
struct PushClientHostileTests {
    typealias Script = HTTP2FrameService.Script

    /// The service's answer to each request, the expected outcome, and the expected code of the client's GOAWAY frame.
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var script: Script
        var isExpected: @Sendable (DeliveryOutcome) -> Bool
        var code: UInt32?
    }

    private static let isLost: @Sendable (DeliveryOutcome) -> Bool = {
        if case .indeterminate(.connectionLost) = $0 { true } else { false }
    }

    /// On a slow machine the deadline may come before the limit of frames.
    private static let isLostOrOverdue: @Sendable (DeliveryOutcome) -> Bool = {
        isLost($0) || $0 == .indeterminate(.deadline)
    }

    private static func isReset(_ code: Int) -> @Sendable (DeliveryOutcome) -> Bool {
        { $0 == .indeterminate(.streamReset(code: code)) }
    }

    private static let cases = [
        Case(
            testDescription: "endless PING",
            script: .saying({ _ in [] }, then: Wire.ping),
            isExpected: isLostOrOverdue,
            code: 11
        ),
        Case(
            testDescription: "endless SETTINGS",
            script: .saying({ _ in [] }, then: Wire.settings([(3, 100)])),
            isExpected: isLostOrOverdue,
            code: 11
        ),
        Case(
            testDescription: "endless CONTINUATION",
            script: .saying(
                { Wire.frame(.headers, stream: $0, Wire.status200) },
                then: Wire.frame(.continuation, stream: 1)
            ),
            isExpected: isLost,
            code: 11
        ),
        Case(
            testDescription: "an endless body",
            script: .saying(
                { Wire.headers($0, Wire.status200, isEnd: false) },
                then: Wire.data(1, Array(repeating: 0x20, count: 16_384), isEnd: false)
            ),
            isExpected: { $0 == .indeterminate(.acceptanceIncomplete) },
            code: 0
        ),
        Case(
            testDescription: "two statuses",
            script: .saying { Wire.headers($0, [(":status", "400"), (":status", "200")]) },
            isExpected: isReset(1),
            code: 0
        ),
        Case(
            testDescription: "a body on an idle stream",
            script: .saying { Wire.data($0 + 2, [1]) },
            isExpected: isLost,
            code: 1
        ),
        Case(
            testDescription: "a GOAWAY that grows",
            script: .saying { Wire.goAway(last: $0) + Wire.goAway(last: $0 + 2) + Wire.headers($0, Wire.status200) },
            isExpected: isLost,
            code: 1
        ),
    ]

    /// Goal: each request has its one correct outcome in time, and the service receives the reason.
    @Test(arguments: Self.cases)
    func `the request ends in time, and the service receives the reason`(_ hostile: Case) async throws {
        let identity = try PushFixture.server.get().identity
        try await HTTP2FrameService.withRunning(hostile.script, tls: .server(identity: identity)) { service in
            var configuration = try PushFixture.clientConfiguration(port: service.port)
            configuration.responseTimeout = .seconds(5)
            configuration.attemptCountMax = 2
            let request = try PushFixture.request()
            let (outcome, seconds) = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) {
                client in
                let start = ContinuousClock.now
                let outcome = await client.send(request)
                return (outcome, ContinuousClock.now - start)
            }
            #expect(hostile.isExpected(outcome), "\(outcome)")
            #expect(seconds < .seconds(20))
            // If the service continues sending, TCP may discard what it has not read, including the GOAWAY frame.
            if let code = hostile.code, hostile.script.flood.isEmpty {
                try await service.wait { $0.goAwayCodes.contains(code) }
            }
        }
    }

    /// A request whose answer begins with success is sent once, whether the answer ends or not; with another status, it
    /// is repeated.
    @Test(arguments: [(200, false), (503, false), (201, true), (202, true), (204, true), (299, true)])
    func `success that is not a complete 200 is in doubt, and its request is not repeated`(status: Int, isEnd: Bool)
        async throws
    {
        let identity = try PushFixture.server.get().identity
        let script = Script.saying {
            Wire.headers($0, [(":status", "\(status)")], isEnd: isEnd) + (isEnd ? [] : Wire.reset($0, code: 2))
        }
        try await HTTP2FrameService.withRunning(script, tls: .server(identity: identity)) { service in
            var configuration = try PushFixture.clientConfiguration(port: service.port)
            configuration.attemptCountMax = 2
            configuration.resendsUnknown = true
            let request = try PushFixture.request()
            let outcome = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                await client.send(request)
            }
            let isSuccess = status < 300
            #expect(outcome == .indeterminate(isSuccess ? .acceptanceIncomplete : .streamReset(code: 2)))
            #expect(service.record.bodies.count == (isSuccess ? 1 : 2))
        }
    }

    @Test(arguments: [[], ["http/1.1"]])
    func `a service without HTTP2 in ALPN is refused`(_ protocols: [String]) async throws {
        let identity = try PushFixture.server.get().identity
        var script = Script()
        script.applicationProtocols = protocols
        try await HTTP2FrameService.withRunning(script, tls: .server(identity: identity)) { service in
            let configuration = try PushFixture.clientConfiguration(port: service.port)
            let request = try PushFixture.request()
            let outcome = NIOLockedValueBox<DeliveryOutcome?>(nil)
            let error = await #expect(throws: ProviderError.self) {
                try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                    let sent = await client.send(request)
                    outcome.withLockedValue { $0 = sent }
                }
            }
            #expect("\(String(describing: error))".contains("ALPN"))
            guard case .unsent(.notPermitted) = outcome.withLockedValue(\.self) else {
                Issue.record("\(String(describing: outcome.withLockedValue(\.self)))")
                return
            }
            #expect(service.record.headersCount == 0)
        }
    }
}
