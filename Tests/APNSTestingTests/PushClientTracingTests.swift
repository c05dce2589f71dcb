// SPDX-License-Identifier: Apache-2.0

#if Tracing
import APNSProvider
import APNSProviderHTTP2
import APNSTesting
import InMemoryTracing
import Testing
import Tracing

/// Goal: each send is a span that says what became of it, in the span of its caller.
@Suite(.timeLimit(.minutes(1)), .runningSimulator) struct PushClientTracingTests {
    private static func unknown() throws -> PushNotification {
        PushNotification(token: try DeviceToken(bytes: [UInt8](repeating: 2, count: 32)), payload: "{\"aps\":{}}")
    }

    /// The finished spans of sending notifications, without that of the caller.
    private static func spans(
        _ configuration: PushClientConfiguration,
        _ notifications: [PushNotification],
        isArray: Bool = false
    ) async throws -> [FinishedInMemorySpan] {
        let tracer = InMemoryTracer()
        let caller = try await withTracer(tracer) {
            try await withSpan("caller") { span in
                let client = try PushClient(configuration)
                async let run: Void = client.run()
                if isArray { _ = await client.send(notifications) }
                for notification in notifications where !isArray { _ = await client.send(notification) }
                client.finish()
                try await run
                return span.context.inMemorySpanContext
            }
        }
        let spans = tracer.finishedSpans.filter { $0.operationName.hasPrefix("apns.legacy.send") }
        #expect(tracer.activeSpans.isEmpty)
        for span in spans {
            #expect(span.kind == .client && span.traceID == caller?.traceID && span.parentSpanID == caller?.spanID)
        }
        return spans
    }

    private static func attributes(_ span: FinishedInMemorySpan) -> [String: SpanAttribute] {
        var attributes: [String: SpanAttribute] = [:]
        span.attributes.forEach { attributes[$0] = $1 }
        return attributes
    }

    @Test func `over the binary protocol a span has protocol, outcome, status and attempts`() async throws {
        let running = try RunningSimulator.current
        let token = running.register()
        let known = PushNotification(token: token, payload: "{\"aps\":{}}")
        let spans = try await Self.spans(running.binaryConfiguration, [known, try Self.unknown()])
        try #require(spans.count == 2)
        let endpoint = SpanAttribute.string("localhost:\(running.simulator.gatewayPort)")
        #expect(
            Self.attributes(spans[0]) == [
                "apns.legacy.endpoint": endpoint, "apns.legacy.protocol": "binary",
                "apns.legacy.outcome": "accepted", "apns.legacy.attempts": 1,
            ]
        )
        #expect(spans[0].status == nil)
        #expect(
            Self.attributes(spans[1]) == [
                "apns.legacy.endpoint": endpoint, "apns.legacy.protocol": "binary",
                "apns.legacy.outcome": "rejected", "apns.legacy.attempts": 1, "apns.legacy.error.status": 8,
            ]
        )
        #expect(spans[1].status == SpanStatus(code: .error, message: "rejected: 8 (invalid token)"))
    }

    @Test func `over HTTP/2 a span has the status and the reason of the answer`() async throws {
        let running = try RunningSimulator.current
        let configuration = PushClientConfiguration.http2(
            HTTP2Endpoint(host: "localhost", port: running.simulator.http2Port),
            identity: running.identity,
            trust: running.authority.trust
        )
        var notification = try Self.unknown()
        notification.pushType = .alert
        let identifier = try #require(PushIdentifier("6F1AB0CE-6C1A-4D5C-8F3F-3C7E3D9D6F11"))
        notification.apnsID = identifier
        let spans = try await Self.spans(configuration, [notification, notification])
        try #require(spans.count == 2)
        let attributes = Self.attributes(spans[0])
        #expect(attributes["apns.legacy.protocol"] == "http2" && attributes["apns.legacy.answer.status"] == 400)
        #expect(attributes["apns.legacy.answer.reason"] == "BadDeviceToken")
        #expect(attributes["apns.legacy.request.identifier"] == .string("\(identifier)"))
        // The second one is suppressed: nothing failed, and nothing was sent.
        #expect(Self.attributes(spans[1])["apns.legacy.attempts"] == 0 && spans[1].status == nil)
    }

    @Test func `an array is one span with the number of each outcome`() async throws {
        let running = try RunningSimulator.current
        let token = running.register()
        let known = PushNotification(token: token, payload: "{\"aps\":{}}")
        let spans = try await Self.spans(
            running.binaryConfiguration,
            [known, try Self.unknown(), known, PushNotification(token: token, payload: "[]")],
            isArray: true
        )
        try #require(spans.count == 1)
        #expect(spans[0].operationName == "apns.legacy.send.array")
        #expect(
            Self.attributes(spans[0]) == [
                "apns.legacy.endpoint": .string("localhost:\(running.simulator.gatewayPort)"),
                "apns.legacy.protocol": "binary", "apns.legacy.notifications.accepted": 2,
                "apns.legacy.notifications.rejected": 1, "apns.legacy.notifications.invalid": 1,
            ]
        )
        #expect(spans[0].status == SpanStatus(code: .error, message: "2 of 4 notifications failed"))
        let accepted = try await Self.spans(running.binaryConfiguration, [known, known], isArray: true)
        #expect(accepted.count == 1 && accepted[0].status == nil)
    }

    @Test func `a span says that the deadline passed`() async throws {
        let tracer = InMemoryTracer()
        try await withTracer(tracer) {
            // Nothing runs, so that the notification waits.
            let client = try PushClient(try RunningSimulator.current.binaryConfiguration)
            let outcome = await client.send(try Self.unknown(), deadline: .now + .milliseconds(20))
            #expect(outcome == .unsent(.deadline))
        }
        let spans = tracer.finishedSpans
        #expect(spans.map(\.status?.message) == ["\(DeliveryOutcome.unsent(.deadline))"])
    }

    @Test func `without a tracer nothing is traced, and the outcome is the same`() async throws {
        let client = ScriptedPushClient([.suppressed])
        #expect(await client.send(try Self.unknown()) == .suppressed)
        #expect(InstrumentationSystem.tracer is NoOpTracer)
    }
}
#endif
