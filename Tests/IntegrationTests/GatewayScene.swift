// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport

/// A gateway as a process of its own, before an HTTP/2 endpoint of another make, with all files that both need.
struct GatewayScene: Sendable {
    static let topic = "com.example.app"

    let folder: URL
    let authority: ThrowawayAuthority
    let provider: ThrowawayIdentity
    let gatewayPort: Int
    let feedbackPort: Int
    let adminPort: Int
    let gateway: Child

    /// What the endpoint was asked for: token, status, topic and push type of each request.
    struct Request: Hashable, Sendable {
        var token: String
        var status: Int
        var topic: String
        var pushType: String
    }

    var log: URL { self.folder.appending(path: "log") }

    /// Runs gateway and endpoint while `body` runs.
    ///
    /// - Returns: the requests that the endpoint had, and how the gateway ended when it was told to by SIGTERM.
    static func run(
        bad: [String] = [],
        dead: [String] = [],
        _ body: @Sendable (GatewayScene) async throws -> Void
    ) async throws -> (requests: [Request], ending: Child.Ending) {
        let environment = try await PythonEnvironment("h2==4.1.0")
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let authority = try ThrowawayAuthority()
        let provider = try authority.issueClient(topic: Self.topic)
        try Data(authority.certificatePEM).write(to: folder.appending(path: "ca.pem"))
        try Data(provider.pem).write(to: folder.appending(path: "provider.pem"))
        try Data(try authority.issueServer().pem).write(to: folder.appending(path: "server.pem"))
        let endpoint = try Endpoint(environment.python, folder, bad: bad, dead: dead)
        defer { endpoint.kill() }
        guard let port = Int(try await endpoint.lines.next() ?? "") else { throw Child.Failure(description: "no port") }
        try Data(Self.configuration(port).utf8).write(to: folder.appending(path: "gateway.yaml"))
        let (gateway, ready) = try await Child.start(
            ["gateway", "--config", folder.appending(path: "gateway.yaml").path],
            log: folder.appending(path: "log").path
        )
        defer { gateway.send(SIGKILL) }
        let ports = Self.ports(ready)
        let scene = GatewayScene(
            folder: folder,
            authority: authority,
            provider: provider,
            gatewayPort: ports[0],
            feedbackPort: ports[1],
            adminPort: ports[2],
            gateway: gateway
        )
        try await body(scene)
        gateway.send(SIGTERM)
        let ending = try await gateway.end()
        return (try await endpoint.end(), ending)
    }

    /// The ports that a gateway says it listens on: notifications, feedback, operators.
    static func ports(_ line: String) -> [Int] { line.split(separator: " ").compactMap { Int($0) } }

    private static func configuration(_ port: Int) -> String {
        """
        listen: {port: 0, feedbackPort: 0}
        admin: {port: 0}
        server: {certificate: server.pem}
        feedback: feedback.sqlite
        limits: {shutdown: 10s}
        providers:
          - name: shop
            clients: {authority: ca.pem}
            environment: sandbox
            upstream: {certificate: provider.pem, host: localhost, port: \(port), trust: ca.pem}
        """
    }
}

/// The endpoint's process.
private final class Endpoint {
    let lines: LineReader
    private let process = Process()
    private let input = Pipe()

    init(_ python: String, _ folder: URL, bad: [String], dead: [String]) throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Interop/http2_endpoint.py")
        let output = Pipe()
        self.lines = LineReader(output.fileHandleForReading)
        self.process.executableURL = URL(filePath: python)
        self.process.arguments =
            [
                script.path, "--identity", folder.appending(path: "server.pem").path, "--trust",
                folder.appending(path: "ca.pem").path, "--bad",
            ] + bad + ["--dead"] + dead
        self.process.standardInput = self.input
        self.process.standardOutput = output
        try self.process.run()
    }

    /// Ends it, and returns what it was asked for.
    func end() async throws -> [GatewayScene.Request] {
        try self.input.fileHandleForWriting.close()
        var requests: [GatewayScene.Request] = []
        while let line = try await self.lines.next() {
            let words = line.split(separator: " ").map(String.init)
            guard words.count == 4, let status = Int(words[1]) else { continue }
            requests.append(
                GatewayScene.Request(token: words[0], status: status, topic: words[2], pushType: words[3])
            )
        }
        return requests
    }

    func kill() {
        if self.process.isRunning { Foundation.kill(self.process.processIdentifier, SIGKILL) }
    }
}
