// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOCore
import NIOPosix

/// The number of notifications of a provider that a running gateway has settled, by verdict, from its metrics.
struct GatewayVerdicts: Sendable {
    private static let metric = "apns_legacy_notifications_settled_total"
    private static let requestDurationMax = Duration.seconds(5)
    /// The maximum size of the answer, in bytes.
    private static let answerByteCountMax = 4 << 20

    private let endpoint: Endpoint
    private let provider: String

    /// - Parameters:
    ///   - endpoint: the address of the gateway's metrics.
    ///   - provider: the provider's name.
    init(_ endpoint: Endpoint, provider: String) {
        self.endpoint = endpoint
        self.provider = provider
    }

    /// Requests the metrics.
    ///
    /// - Returns: the counts by verdict; `nil` if the request fails.
    func read() async -> [String: Int]? {
        let answer = await withTaskGroup(of: String?.self) { group in
            group.addTask { try? await self.request() }
            group.addTask {
                try? await Task.sleep(for: Self.requestDurationMax)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        guard let answer, answer.hasPrefix("HTTP/1.1 200 ") else { return nil }
        return Self.counts(answer, provider: self.provider)
    }

    private func request() async throws -> String {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connectTimeout(TimeAmount(Self.requestDurationMax))
            .connect(host: self.endpoint.host, port: self.endpoint.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { input, output in
            let head = "GET /metrics HTTP/1.1\r\nHost: \(self.endpoint)\r\nConnection: close\r\n\r\n"
            try await output.write(ByteBuffer(string: head))
            var bytes = ByteBuffer()
            for try await var piece in input {
                bytes.writeBuffer(&piece)
                if bytes.readableBytes > Self.answerByteCountMax { break }
            }
            return String(buffer: bytes)
        }
    }

    /// Reads the counts of a provider.
    ///
    /// - Parameters:
    ///   - text: the metrics in Prometheus text format.
    ///   - provider: its name.
    /// - Returns: the counts by verdict.
    static func counts(_ text: String, provider: String) -> [String: Int] {
        var counts: [String: Int] = [:]
        let begin = "\(Self.metric){provider=\"\(provider)\",verdict=\""
        for line in text.split(whereSeparator: \.isNewline) where line.hasPrefix(begin) {
            let parts = line.dropFirst(begin.count).split(separator: "\"} ", maxSplits: 1)
            if parts.count == 2, let count = Int(parts[1]) { counts[String(parts[0])] = count }
        }
        return counts
    }

    /// Finds the verdict of the one notification that was settled between two readings.
    ///
    /// - Returns: `nil` if there was none, or more than one.
    static func difference(_ before: [String: Int]?, _ after: [String: Int]?) -> String? {
        guard let before, let after else { return nil }
        let changes = after.filter { $0.value != before[$0.key, default: 0] }
        guard changes.count == 1, let change = changes.first, change.value == before[change.key, default: 0] + 1 else {
            return nil
        }
        return change.key
    }
}
