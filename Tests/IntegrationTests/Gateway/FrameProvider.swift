// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport

/// A provider that reads only on request: plain frames over TLS with Python's standard library, in its own process.
final class FrameProvider {
    /// The result of a step.
    struct Answer: Decodable {
        /// The numbers of the written notifications.
        var written: [UInt32]?
        /// The name of the error that ended the step.
        var failure: String?
        var seconds: Double?
        /// The bytes read, in hexadecimal digits.
        var bytes: String?
    }

    private struct Step: Encodable {
        var `do`: String
        var command: Int?
        var numbers: [UInt32]?
        var lengths: [String: Int]?
        var probe: UInt32?
        var interval: Double?
        var count: Int?
        var timeout: Double?
        var after: Double?
    }

    private let process = Process()
    private let input = Pipe()
    private let lines: LineReader

    /// Starts the provider for a gateway, with the certificate in the folder; it is not connected yet.
    init(_ folder: GatewayProgram.Folder, port: Int) throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
            .appending(path: "Interop/frame_provider.py")
        let output = Pipe()
        self.lines = LineReader(output.fileHandleForReading)
        self.process.executableURL = URL(filePath: "/usr/bin/env")
        self.process.arguments = [
            "python3", script.path, "--port", "\(port)", "--identity", folder.path("provider.pem"), "--trust",
            folder.path("ca.pem"),
        ]
        self.process.standardInput = self.input
        self.process.standardOutput = output
        try self.process.run()
    }

    deinit {
        // It ends with its input; a current step has its own deadline.
        try? self.input.fileHandleForWriting.close()
    }

    private func take(_ step: Step) async throws -> Answer {
        let line = try JSONEncoder().encode(step) + Data("\n".utf8)
        try self.input.fileHandleForWriting.write(contentsOf: line)
        guard let answer = try await self.lines.next() else {
            throw Child.Failure(description: "The provider in Python ended in the step \(step.do).")
        }
        return try JSONDecoder().decode(Answer.self, from: Data(answer.utf8))
    }

    /// Opens a connection for the following steps, after a number of seconds on the provider's own clock.
    func connect(after seconds: Double = 0) async throws {
        let answer = try await self.take(Step(do: "connect", after: seconds))
        if let failure = answer.failure { throw Child.Failure(description: "not connected: \(failure)") }
    }

    /// Writes notifications, and optionally a probe with this identifier after them, in one call.
    ///
    /// The numbers are those of their tokens and, with command 1, their identifiers. The lengths are those of payloads
    /// in bytes, by number, if relevant.
    @discardableResult
    func write(
        _ numbers: ClosedRange<UInt32>,
        command: Int = 1,
        lengths: [UInt32: Int] = [:],
        probe: UInt32? = nil
    ) async throws -> Answer {
        let lengths = Dictionary(uniqueKeysWithValues: lengths.map { ("\($0.key)", $0.value) })
        return try await self.take(
            Step(do: "write", command: command, numbers: Array(numbers), lengths: lengths, probe: probe)
        )
    }

    /// Writes one notification per interval, in seconds, until all are written or a write fails.
    func pace(_ numbers: ClosedRange<UInt32>, command: Int = 1, interval: Double) async throws -> Answer {
        try await self.take(Step(do: "pace", command: command, numbers: Array(numbers), interval: interval))
    }

    /// Reads a number of bytes, or up to the end.
    func read(count: Int) async throws -> Answer { try await self.take(Step(do: "read", count: count)) }

    /// Waits for a reset without reading.
    ///
    /// - Returns: the seconds until the reset, if it happened.
    func awaitReset(timeout: Double) async throws -> Double? {
        try await self.take(Step(do: "reset", timeout: timeout)).seconds
    }

    /// Closes the socket like a process that ends.
    func close() async throws { _ = try await self.take(Step(do: "close")) }
}

extension GatewayProgram {
    /// The lines of the log with this message, as objects.
    func entries(_ message: String) throws -> [[String: String]] {
        try self.lines(["\"message\":\"\(message)\""])
            .map { try JSONDecoder().decode([String: String].self, from: Data($0.utf8)) }
    }

    /// The number of discarded notifications in the log; waits for the expected number for at most 5 seconds.
    func discardedInLog(_ expected: Int) async throws -> Int {
        var count = 0
        try await eventually("\(expected) are discarded", within: .seconds(5)) {
            count = try self.entries("notifications discarded").reduce(0) { sum, entry in
                let names = ["discarded", "dropped"].map { "apns.legacy.notifications.\($0)" }
                return sum + (names.compactMap { entry[$0].flatMap { Int($0) } }.first ?? 0)
            }
            return count >= expected
        }
        return count
    }

    /// The number of discarded notifications in the metrics.
    func discardedInMetrics() async throws -> Int {
        let text = try await GatewayOperatorTests.get("/metrics", self).body
        let samples = text.split(separator: "\n").filter {
            $0.hasPrefix("apns_legacy_notifications_discarded_total")
        }
        return samples.compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0) { $0 + Int($1) }
    }
}
