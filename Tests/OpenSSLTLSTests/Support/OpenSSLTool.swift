// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation

/// Runs the `openssl` program as a peer.
final class OpenSSLTool: Sendable {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private struct State: Sendable {
        var output = ""
        var isEnded = false
    }

    private let process: Process
    private let input: Pipe
    private let state = ObservedValue(State())

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
                self.state.change { $0.output += String(decoding: data, as: UTF8.self) }
            }
            self.state.change { $0.isEnded = true }
        }
    }

    var output: String { self.state.current.output }

    /// Waits until its output contains a text.
    func wait(for text: String) async throws {
        try await self.state.wait(until: { $0.output.contains(text) }) {
            Failure(description: "\"\(text)\" is not in: \($0.output)")
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

    /// Kills it: it inherits the signals that the threads of the test run block, including SIGTERM.
    func stop() {
        if self.process.isRunning { kill(self.process.processIdentifier, SIGKILL) }
        try? self.input.fileHandleForWriting.close()
    }

    /// Runs it to completion and returns its output.
    static func output(_ arguments: [String]) async throws -> String {
        let tool = try OpenSSLTool(arguments)
        defer { tool.stop() }
        try tool.endInput()
        try await tool.waitForEnd()
        return tool.output
    }

    /// Waits until it has closed its output.
    func waitForEnd() async throws {
        try await self.state.wait(until: { $0.isEnded }) { Failure(description: "it goes on, and said: \($0.output)") }
    }
}
