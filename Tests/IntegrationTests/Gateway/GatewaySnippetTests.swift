// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport
import Testing

/// The snippet of APNSGateway as a separate process, with a client as another one.
@Suite(.timeLimit(.minutes(2))) struct GatewaySnippetTests {
    @Test func `a gateway of one's own delivers what a binary client sends, and ends on a signal`() async throws {
        let scene = try SendScene()
        try scene.writeIdentities()
        let server = try SendScene.gateway.get()
        let identity = try scene.write("server.pem", server.certificatePEM + server.keyPEM)
        let tokens = [1, 1_000_000, 2].map(SendScene.token)
        let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
        let words = [identity, scene.path("ca.pem"), tokens[0], tokens[2]]
        let gateway = try Child(words, streams, program: Child.program(named: "RunAGateway"))
        try await eventually("the port is printed") { scene.read("out").hasSuffix("\n") }
        let port = try #require(scene.read("out").split(whereSeparator: { " \n".contains($0) }).last)
        let sender = try Child.program(named: "SendOneByOne")
        let printed = try await Program.run(
            sender,
            ["localhost", "\(port)", scene.folder] + tokens,
            deadlineSeconds: 60
        )
        #expect(
            String(decoding: printed, as: UTF8.self)
                == "cccccccc... accepted\ncccccccc... rejected: 8 (invalid token)\ncccccccc... accepted\n"
        )
        gateway.send(SIGTERM)
        let ending = try await gateway.end()
        #expect(ending.code == 0, "\(scene.read("err"))")
        let lines = scene.read("out").split(separator: "\n").dropFirst()
        #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix(#"example: {"aps":"#) }, "\(lines)")
    }
}
