// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import TestSupport
import Testing

/// Results that are not read, like a disk that does not respond, and the connections meanwhile.
@Suite(.timeLimit(.minutes(2))) struct SendSlowDiskTests {
    @Test(arguments: ["1", "2"])
    func `while results cannot be written, error responses are handled and lines are sent`(
        _ connectionCount: String
    ) async throws {
        let scene = try SendScene()
        let count = TestEffort.count(4000, long: 10_000)
        let bad: Set<Int> = TestEffort.isLong ? [1500, 3000, 4500, 6000, 7500] : [500, 1500, 2500, 3000, 3500]
        let lines = (1...count).map { SendScene.token(bad.contains($0) ? 1_000_000 + $0 : $0) + "\n" }
        let path = try scene.write("tokens", lines.joined())
        try #require(mkfifo(scene.path("fifo"), 0o600) == 0)
        // The reader has opened the pipe, and does not read yet.
        let reading = open(scene.path("fifo"), O_RDONLY | O_NONBLOCK)
        _ = fcntl(reading, F_SETFL, 0)
        try await SendScene.withGateway(deviceCount: count) { simulator in
            let arguments = [
                "--tokens", path, "--alert", "hello", "--results", scene.path("fifo"), "--connections", connectionCount,
                "--window", "1000",
            ]
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams, deadline: 100)
            // A pipe holds 64 KiB, which are the results of about 500 lines.
            try await eventually("all is sent while the results wait", within: .seconds(60)) {
                simulator.statistics.processedCount >= count - bad.count
            }
            #expect(simulator.statistics.processedCount == count - bad.count)
            #expect(!child.hasEnded)
            let text = await TerminalReader(reading).text()
            close(reading)
            let ending = try await child.end()
            #expect(ending.code == 1, "\(ending) \(scene.read("err"))")
            let results = try ResultLine.parse(text)
            #expect(results.map(\.line).sorted() == Array(1...count))
            #expect(Set(results.filter { $0.outcome == "rejected" }.map(\.line)) == bad)
        }
    }

    @Test func `a second signal ends a run whose results are not read`() async throws {
        let scene = try SendScene()
        let count = 2000
        let path = try scene.write("tokens", (1...count).map { SendScene.token($0) + "\n" }.joined())
        try #require(mkfifo(scene.path("fifo"), 0o600) == 0)
        let reading = open(scene.path("fifo"), O_RDONLY | O_NONBLOCK)
        defer { close(reading) }
        try await SendScene.withGateway(deviceCount: count) { simulator in
            let arguments = ["--tokens", path, "--alert", "hello", "--results", scene.path("fifo")]
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
            try await eventually("all is sent") { simulator.statistics.processedCount == count }
            child.send(SIGTERM)
            try await eventually("the first signal is reported") { scene.read("err").contains("Stopping: ") }
            child.sendAnother(SIGTERM)
            let ending = try await child.end()
            #expect(ending.code == 75 && !ending.isOverdue, "\(ending) \(scene.read("err"))")
            #expect(scene.read("err").contains("apns-legacy send: stopped"), "\(scene.read("err"))")
        }
    }
}
