// SPDX-License-Identifier: Apache-2.0

import Foundation
import GatewayService
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import APNSLegacyCommands

/// Goal: the metrics file of a run is complete, and contains the time of the last success.
@Suite struct MetricsFileTests {
    /// The testing library also has a type with this name.
    private typealias Status = APNSLegacyCommands.ExitStatus

    private struct Trouble: Error {}

    private static func environment(at time: Int64) -> CommandEnvironment {
        let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
        var environment = CommandEnvironment(console: Console(input: nothing, output: nothing, error: nothing))
        environment.now = { time }
        return environment
    }

    private static func lines(_ path: String) throws -> [String] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map(String.init)
    }

    @Test func `a failed run keeps the time of the last success`() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/nightly.prom"
        let labels = "{command=\"send\",name=\"nightly\"}"
        func run(at time: Int64, _ body: () throws -> Status) async throws -> Status {
            let file = try MetricsFile(path, command: "send")
            let environment = Self.environment(at: time)
            return try await file.record(in: environment, successes: [.success, .someRefused]) {
                let sample = GatewayMetrics.Sample(name: "apns_legacy_send_possible_duplicates", value: 2)
                environment.samples.withLockedValue { $0 = [sample] }
                return try body()
            }
        }
        let last = "apns_legacy_job_last_success_timestamp_seconds\(labels)"
        #expect(try await run(at: 1000) { .tryAgain } == .tryAgain)
        #expect(try Self.lines(path).contains("\(last) 0"))
        #expect(try await run(at: 2000) { .someRefused } == .someRefused)
        #expect(try Self.lines(path).contains("\(last) 2000"))
        await #expect(throws: Trouble.self) { try await run(at: 3000) { throw Trouble() } }
        let lines = try Self.lines(path)
        #expect(lines.contains("\(last) 2000"))
        #expect(lines.contains("apns_legacy_job_exit_code\(labels) 70"))
        #expect(lines.contains("apns_legacy_job_end_timestamp_seconds\(labels) 3000"))
        #expect(lines.contains("apns_legacy_send_possible_duplicates\(labels) 2"))
        #expect(lines.count { $0.hasPrefix("# HELP ") } == 6 && lines.count { $0.hasPrefix("# TYPE ") } == 6)
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o644)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["nightly.prom"])
    }

    @Test func `a symbolic link that another user put next to the file is not followed`() async throws {
        let folder = try TemporaryFolder()
        let victim = try folder.write("victim", Array("precious".utf8))
        let (path, link) = (folder.path + "/a.prom", folder.path + "/b.prom")
        for link in [link, "\(path).\(getpid())"] {
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: victim)
        }
        // A file without metrics is not replaced, also by this name.
        #expect(throws: CommandFailure.self) { _ = try MetricsFile(link, command: "send") }
        let file = try MetricsFile(path, command: "send")
        #expect(try await file.record(in: Self.environment(at: 0)) { .success } == .success)
        #expect(try String(contentsOfFile: victim, encoding: .utf8) == "precious")
        #expect(try Self.lines(path).count > 3)
    }

    @Test(arguments: ["metrics.txt", ".prom", "missing/nightly.prom"])
    func `a file that would not be read or cannot be created is detected before the run`(_ name: String) throws {
        let folder = try TemporaryFolder()
        #expect(throws: CommandFailure.self) { _ = try MetricsFile("\(folder.path)/\(name)", command: "send") }
    }

    @Test func `a file that cannot be written at the end is a failure, but does not hide another one`() async throws {
        for (status, expected) in [(Status.success, Status.cannotCreate), (.tryAgain, .tryAgain)] {
            let folder = try TemporaryFolder()
            let file = try MetricsFile(folder.path + "/a.prom", command: "send")
            let found = try await file.record(in: Self.environment(at: 0)) {
                try FileManager.default.removeItem(atPath: folder.path)
                return status
            }
            #expect(found == expected)
        }
    }
}
