// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Runs OpenSSL's own program as a peer.
final class OpenSSLTool: Sendable {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private struct State {
        var output = ""
        var waiters: [(text: String, promise: EventLoopPromise<Void>)] = []
        var isEnded = false
    }

    private let process: Process
    private let input: Pipe
    private let state = NIOLockedValueBox(State())

    /// Starts `openssl` with arguments.
    init(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/openssl")
        process.arguments = arguments
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        self.process = process
        self.input = input
        try process.run()
        try output.fileHandleForWriting.close()
        Thread.detachNewThread { [self] in
            while case let data = output.fileHandleForReading.availableData, !data.isEmpty {
                self.take(String(decoding: data, as: UTF8.self), isEnd: false)
            }
            self.take("", isEnd: true)
        }
    }

    var output: String { self.state.withLockedValue(\.output) }

    /// Waits until its output contains a text.
    func wait(for text: String) async throws {
        let promise = MultiThreadedEventLoopGroup.singleton.next().makePromise(of: Void.self)
        let isThere = self.state.withLockedValue { state in
            if state.output.contains(text) { return true }
            state.waiters.append((text, promise))
            return false
        }
        if isThere { promise.succeed(()) }
        do {
            try await promise.futureResult.get(within: .seconds(20))
        } catch {
            throw Failure(description: "\"\(text)\" is not in: \(self.output)")
        }
    }

    /// Writes to its standard input.
    func write(_ text: String) throws {
        try self.input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
    }

    /// Ends its standard input.
    func endInput() throws {
        try self.input.fileHandleForWriting.close()
    }

    /// Stops it, in the way that it cannot refuse: it inherits the signals that the threads of the test run block,
    /// SIGTERM among them.
    func stop() {
        if self.process.isRunning { kill(self.process.processIdentifier, SIGKILL) }
        try? self.input.fileHandleForWriting.close()
    }

    /// Runs it to its end and returns all it printed.
    static func output(_ arguments: [String]) async throws -> String {
        let tool = try OpenSSLTool(arguments)
        defer { tool.stop() }
        try tool.endInput()
        try await tool.waitForEnd()
        return tool.output
    }

    /// Waits until it has closed its output.
    func waitForEnd() async throws {
        try await self.wait(for: Self.end)
    }

    private static let end = "\u{0}end"

    private func take(_ text: String, isEnd: Bool) {
        let met = self.state.withLockedValue { state in
            guard !state.isEnded else { return [EventLoopPromise<Void>]() }
            state.isEnded = isEnd
            state.output += isEnd ? Self.end : text
            let met = state.waiters.filter { state.output.contains($0.text) }
            state.waiters.removeAll { state.output.contains($0.text) }
            return met.map(\.promise)
        }
        for promise in met { promise.succeed(()) }
    }
}
