// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import TestSupport
import Testing

/// The memory use of a long batch.
@Suite(.timeLimit(.minutes(2))) struct SendMemoryTests {
    static var isSanitized: Bool {
        dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    }

    @Test(.enabled(if: !isSanitized)) func `a long batch uses at most 64 MiB, with results and a journal`()
        async throws
    {
        let scene = try SendScene()
        let count = TestEffort.count(20_000, long: 300_000)
        let line = Array((SendScene.token(1) + "\n").utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(line.count * count)
        for _ in 0..<count { bytes += line }
        let path = try scene.write("tokens.txt", bytes)
        try await SendScene.withGateway { simulator in
            let arguments = [
                "--tokens", path, "--alert", "hello", "--results", scene.path("results.jsonl"), "--journal",
                scene.path("journal"),
            ]
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams, deadline: 100)
            var residentKiBMax = 0
            try await eventually("it ends", within: .seconds(120)) {
                residentKiBMax = max(residentKiBMax, child.residentKiBMax ?? 0)
                return child.hasEnded
            }
            let ending = try await child.end()
            #expect(ending.code == 0, "\(ending) \(scene.read("err"))")
            #expect(residentKiBMax > 0 && residentKiBMax <= 64 << 10)
            #expect(try simulator.count(1) == count)
            print("\(count) lines: \(residentKiBMax >> 10) MiB, \(ending.seconds) s")
        }
    }
}
