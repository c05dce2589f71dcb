// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import Testing

/// The memory of a long batch.
@Suite(.timeLimit(.minutes(2))) struct SendMemoryTests {
    static var isSanitized: Bool {
        dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    }

    @Test(.enabled(if: !isSanitized))
    func `300,000 lines take at most 64 MiB, with results and a journal`() async throws {
        let scene = try SendScene()
        let count = 300_000
        let line = Array((SendScene.token(1) + "\n").utf8)
        var octets: [UInt8] = []
        octets.reserveCapacity(line.count * count)
        for _ in 0..<count { octets += line }
        let path = try scene.write("tokens.txt", octets)
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(
                [
                    "--tokens", path, "--alert", "hello", "--results", scene.path("results.jsonl"), "--journal",
                    scene.path("journal"),
                ],
                port: simulator.gatewayPort,
                deadline: 100
            )
            #expect(run.ending.code == 0, "\(run.ending) \(run.error)")
            #expect(run.ending.residentKiBMax <= 64 << 10)
            #expect(try simulator.count(1) == count)
            print("300,000 lines: \(run.ending.residentKiBMax >> 10) MiB, \(run.ending.seconds) s")
        }
    }
}
