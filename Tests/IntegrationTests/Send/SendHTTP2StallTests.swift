// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// `send --transport http2` with a service that never permits sending, or never responds.
@Suite(.timeLimit(.minutes(2))) struct SendHTTP2StallTests {
    typealias Script = HTTP2FrameService.Script

    /// The kind of stall, with a name for the test.
    enum Kind: CaseIterable, CustomTestStringConvertible {
        case noStreams, noWindow, silent

        var script: Script {
            switch self {
            case .noStreams: .noStreams
            case .noWindow: .noWindow
            case .silent: .silent
            }
        }

        var testDescription: String { "\(self)" }
    }

    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private func withService<Value: Sendable>(
        _ script: Script,
        _ body: (HTTP2FrameService) async throws -> Value
    ) async throws -> Value {
        let tls = TLSConfiguration.server(identity: try SendScene.gateway.get().identity)
        return try await HTTP2FrameService.withRunning(script, tls: tls, body)
    }

    private func arguments(_ port: Int, count: Int, _ more: [String], text: String = "hello") throws -> [String] {
        let path = try self.scene.write("a.jsonl", (1...count).map { SendScene.line($0, text: text) }.joined())
        return ["send", path, "--transport", "http2"] + self.scene.endpoint(port)
            + ["--results", self.scene.path("results.jsonl"), "--summary", "json"] + more
    }

    @Test(arguments: [Kind.noStreams, .noWindow])
    func `a service that never permits sending is given up, and everything is unsent`(_ kind: Kind) async throws {
        try await self.withService(kind.script) { service in
            let more = ["--answer-timeout", "500ms", "--give-up-after", "2"]
            let run = try await self.scene.run(try self.arguments(service.port, count: 3000, more))
            #expect(run.failed(69, .stalled), "\(run)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.addsUp && summary.total == summary.unsent && summary.unsent > 0 && summary.interrupted)
            let lines = try self.scene.results()
            #expect(lines.count == summary.total && lines.allSatisfy { $0.outcome == "unsent" && !$0.isFlagged })
            #expect(service.record.connectionCount == 2 && service.record.bodies.isEmpty)
        }
    }

    @Test(arguments: Kind.allCases)
    func `SIGTERM ends the wait within its time, and every line has its outcome`(_ kind: Kind) async throws {
        try await self.withService(kind.script) { service in
            let more = ["--answer-timeout", "2s", "--give-up-after", "1000", "--delivery", "at-most-once"]
            let streams = Child.Streams(output: self.scene.path("out"), error: self.scene.path("err"))
            let child = try Child(try self.arguments(service.port, count: 3000, more), streams, deadline: 40)
            switch kind {
            case .noStreams: try await service.wait { $0.connectionCount > 0 }
            case .noWindow: try await service.wait { $0.headersCount > 0 }
            case .silent: try await service.wait { !$0.bodies.isEmpty }
            }
            let start = ContinuousClock.now
            child.send(SIGTERM)
            let ending = try await child.end()
            #expect(ContinuousClock.now - start < .seconds(8))
            #expect(ending.code == 75 && !ending.isOverdue, "\(ending) \(self.scene.read("err"))")
            let summary = try SummaryObject.last(of: self.scene.read("out"))
            #expect(summary.addsUp && summary.total > 0 && summary.interrupted)
            #expect(try self.scene.results().count == summary.total)
            switch kind {
            case .noStreams, .noWindow: #expect(summary.unsent == summary.total)
            case .silent: #expect(summary.indeterminate > 0 && summary.accepted == 0)
            }
        }
    }

    @Test func `a window that never grows costs connections, but no line`() async throws {
        try await self.withService(.fixedWindow) { service in
            let text = String(repeating: "x", count: 4000)
            let arguments = try self.arguments(service.port, count: 40, ["--answer-timeout", "1s"], text: text)
            let run = try await self.scene.run(arguments)
            #expect(run.ending.code == 0, "\(run)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.accepted == 40 && summary.possibleDuplicates == 0)
            #expect(service.record.bodies.count == 40 && service.record.connectionCount == 3)
        }
    }

    @Test func `an invalid duration is a usage error`() async throws {
        for text in ["0", "soon", "-1s"] {
            let run = try await self.scene.run(try self.arguments(1, count: 1, ["--answer-timeout", text]))
            #expect(run.ending.code == 64 && run.error.contains("--answer-timeout"), "\(run)")
        }
    }
}
