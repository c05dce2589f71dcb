// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TokenStore

extension SendScene {
    var purgeList: String { self.path("purge.db") }

    /// Runs a `purge` command on the list of this folder, in this process.
    func purge(_ command: String, _ arguments: [String] = [], input: CInt? = nil) async throws -> Run {
        try await self.run(["purge", command, "--purge-list", self.purgeList] + arguments, input: input)
    }

    /// Adds devices to the list of this folder.
    func addDead(_ devices: [Int], environment: PushEnvironment = .production, topic: String = SendScene.topic) throws {
        try PurgeList(path: self.purgeList).record(
            devices.map { device in
                PurgeEntry(
                    topic: topic,
                    environment: environment,
                    token: SendScene.bytes(device),
                    failedAt: 1_700_000_000,
                    firstSeen: 1_700_000_100,
                    source: "feedback"
                )
            }
        )
    }

    /// The bytes of a device's token.
    static func bytes(_ device: Int) -> [UInt8] {
        let text = Array(Self.token(device).utf8)
        return stride(from: 0, to: text.count, by: 2).compactMap {
            UInt8(String(decoding: text[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }
}
