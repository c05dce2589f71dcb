// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import ArgumentParser
import Glibc
import NIOCore
import OpenSSLTLS

/// A feedback listener with a list of random tokens of 32 bytes, the same in each run. Prints its port, and serves
/// until it is killed.
@main
struct BenchFeedback: AsyncParsableCommand {
    @Option var certificate: String
    @Option var key: String
    @Option var trust: String
    @Option(help: "Number of tuples.") var count: Int

    func run() async throws {
        let identity = try TLSIdentity(contentsOf: self.certificate, key: self.key)
        var configuration = FeedbackListenerConfiguration(identity: identity, clientTrust: .file(self.trust))
        configuration.port = 0
        try await Listener(configuration, store: RandomStore(count: self.count)).withRunning { listener in
            print(try await listener.boundAddress.port)
            fflush(nil)
            try await Task.sleep(for: .seconds(3600))
        }
    }
}

struct RandomStore: FeedbackStore {
    let count: Int

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? { RandomList(count: self.count) }
}

final class RandomList: FeedbackList {
    private var left: Int
    private var random: UInt64 = 1

    init(count: Int) { self.left = count }

    func next(_ countMax: Int) -> [FeedbackTuple] {
        let count = min(countMax, self.left)
        self.left -= count
        return (0..<count).compactMap { _ in self.tuple() }
    }

    private func tuple() -> FeedbackTuple? {
        let words = (0..<4).map { _ in self.word() }
        let token = words.withUnsafeBytes { try? DeviceToken(bytes: $0) }
        return token.map { FeedbackTuple(token: $0, failedAt: Timestamp(secondsSince1970: 1_700_000_000)) }
    }

    /// SplitMix64.
    private func word() -> UInt64 {
        self.random &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.random
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    func acknowledge() {}
}
