// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: a notification that the other system has received is never sent again unflagged, and one that has not left
/// this system is not in doubt, whatever the network does.
///
/// Method: `lossy_link.py` runs `send` and a simulator in two network namespaces. It forwards each packet between them,
/// of which some are lost or late, and compares what was sent, received and reported.
@Suite(
    .enabled(if: access("/dev/net/tun", R_OK | W_OK) == 0, "network interfaces cannot be created"),
    .timeLimit(.minutes(TestEffort.isLong ? 20 : 2))
) struct LossyLinkTests {
    @Test(arguments: ["binary", "http2"], TestEffort.isLong ? ["at-most-once", "at-least-once"] : ["at-most-once"])
    func `what left and what arrived agree with the results`(protocol: String, delivery: String) async throws {
        let machine = try PrivateMachine(scripts: [])
        let script = PrivateMachine.scripts.deletingLastPathComponent().appending(path: "lossy_link.py").path
        let seed = TestEffort.isLong ? UInt32.random(in: .min ... .max) : 3
        let rounds = TestEffort.isLong ? 60 : 1
        let count = TestEffort.isLong ? 40_000 : `protocol` == "binary" ? 12_000 : 3000
        let ending = try await machine.execute(
            [
                "echo 10.77.0.2 gateway.sandbox.push.apple.com api.sandbox.push.apple.com >> /etc/hosts",
                "exec python3 '\(script)' --protocol \(`protocol`) --delivery \(delivery) --seed \(seed) "
                    + "--rounds \(rounds) --count \(count)",
            ],
            deadline: TestEffort.isLong ? 1000 : 90
        )
        let output = machine.read("log")
        #expect(ending.code == 0, "\(output) \(machine.read("log.error")) \(machine.read("send.log"))")
        #expect(output.split(separator: "\n").count == rounds, "\(output)")
    }
}
