// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import TestSupport
import Testing

/// Goal: a service that answers with success, but not with a complete 200, receives the notification once; after
/// another status without an end, the notification is retried.
@Suite(.timeLimit(.minutes(2))) struct GatewayIncompleteAnswerTests {
    private typealias Wire = HTTP2Wire

    @Test(arguments: [(200, false), (202, true), (503, false)])
    func `an answer that is no complete 200 is asked for again only if it is no success`(status: Int, isEnd: Bool)
        async throws
    {
        let isSuccess = status < 300
        let script = HTTP2FrameService.Script.saying {
            Wire.headers($0, [(":status", "\(status)")], isEnd: isEnd) + (isEnd ? [] : Wire.reset($0, code: 2))
        }
        let folder = try GatewayProgram.Folder()
        try await HTTP2FrameService.withRunning(script, tls: .server(identity: folder.server.identity)) { service in
            try folder.configure(upstreamPort: service.port)
            let text = folder.read("gateway.yaml") + "\n    retry: {budget: 1s, first: 100ms, longest: 100ms}\n"
            try folder.write("gateway.yaml", Array(text.utf8))
            let gateway = try await GatewayProgram(folder, deadline: 60)
            let bytes = try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...1))
                return try await provider.end().bytes
            }
            // It is in doubt either way. Only what the gateway itself repeats may be sent again.
            #expect(bytes == (isSuccess ? [] : [8, 1, 0, 0, 0, 1]), "\(gateway.log.suffix(2000))")
            #expect(isSuccess ? service.record.bodies.count == 1 : service.record.bodies.count > 2)
            let line = try await gateway.lines("\"not delivered\"", "\"apns.legacy.settled.cause\":\"unknown\"")
            let answer = "\"apns.legacy.upstream.answer\":\"success, but no complete 200\""
            if isSuccess { #expect(line[0].contains(answer)) }
            let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
            let settled =
                "apns_legacy_notifications_settled_total{provider=\"shop\",cause=\"unknown\",verdict=\"unknown\"} 1\n"
            #expect(metrics.contains(settled), "\(metrics)")
            _ = try await gateway.end()
        }
    }
}
