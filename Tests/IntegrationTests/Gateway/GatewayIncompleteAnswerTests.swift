// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import TestSupport
import Testing

/// Goal: a service that begins to answer 200 and does not end the answer receives the notification once; after another
/// status, the notification is retried.
@Suite(.timeLimit(.minutes(2))) struct GatewayIncompleteAnswerTests {
    private typealias Wire = HTTP2Wire

    @Test(arguments: [200, 503])
    func `an answer that does not end is asked for again only if it is no success`(status: Int) async throws {
        let script = HTTP2FrameService.Script.saying {
            Wire.headers($0, [(":status", "\(status)")], isEnd: false) + Wire.reset($0, code: 2)
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
            #expect(bytes == (status == 200 ? [] : [8, 1, 0, 0, 0, 1]), "\(gateway.log.suffix(2000))")
            #expect(status == 200 ? service.record.bodies.count == 1 : service.record.bodies.count > 2)
            let line = try await gateway.lines("\"not delivered\"", "\"apns.legacy.settled.cause\":\"unknown\"")
            if status == 200 { #expect(line[0].contains("\"apns.legacy.upstream.answer\":\"200 without its end\"")) }
            let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
            let settled =
                "apns_legacy_notifications_settled_total{provider=\"shop\",cause=\"unknown\",verdict=\"unknown\"} 1\n"
            #expect(metrics.contains(settled), "\(metrics)")
            _ = try await gateway.end()
        }
    }
}
