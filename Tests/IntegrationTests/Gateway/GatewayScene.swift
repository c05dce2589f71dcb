// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport

/// A gateway with an independent HTTP/2 server.
enum GatewayScene {
    /// A received request: token, status, topic and push type.
    struct Request: Hashable, Sendable {
        var token: String
        var status: Int
        var topic: String
        var pushType: String
    }

    /// Runs gateway and endpoint while `body` runs.
    ///
    /// - Returns: the requests to the server, and how the gateway ended after SIGTERM.
    static func run(
        bad: [String] = [],
        dead: [String] = [],
        _ body: @Sendable (GatewayProgram) async throws -> Void
    ) async throws -> (requests: [Request], ending: Child.Ending) {
        let environment = try await PythonEnvironment("h2==4.1.0")
        let folder = try GatewayProgram.Folder()
        let endpoint = try Endpoint(environment.python, folder, bad: bad, dead: dead)
        defer { endpoint.kill() }
        guard let port = Int(try await endpoint.lines.next() ?? "") else { throw Child.Failure(description: "no port") }
        try folder.configure(upstreamPort: port)
        let gateway = try await GatewayProgram(folder)
        try await body(gateway)
        let ending = try await gateway.end()
        return (try await endpoint.end(), ending)
    }
}

/// The endpoint's process.
private final class Endpoint {
    let lines: LineReader
    private let process = Process()
    private let input = Pipe()

    init(_ python: String, _ folder: GatewayProgram.Folder, bad: [String], dead: [String]) throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
            .appending(path: "Interop/http2_endpoint.py")
        let output = Pipe()
        self.lines = LineReader(output.fileHandleForReading)
        self.process.executableURL = URL(filePath: python)
        self.process.arguments =
            [
                script.path, "--identity", folder.path("server.pem"), "--trust", folder.path("ca.pem"), "--bad",
            ] + bad + ["--dead"] + dead
        self.process.standardInput = self.input
        self.process.standardOutput = output
        try self.process.run()
    }

    /// Ends the server, and returns its requests.
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
