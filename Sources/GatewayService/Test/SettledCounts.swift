// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOCore
import NIOHTTP1
import NIOPosix

/// The number of notifications of a provider that a running gateway has settled, by cause, from its metrics.
struct SettledCounts: Sendable {
    private static let metric = "apns_legacy_notifications_settled_total"
    private static let requestDurationMax = Duration.seconds(5)
    /// The maximum size of the answer, in bytes.
    private static let answerByteCountMax = 4 << 20

    private let endpoint: Endpoint
    private let provider: String

    init(_ endpoint: Endpoint, provider: String) {
        self.endpoint = endpoint
        self.provider = provider
    }

    /// Requests the metrics.
    ///
    /// Returns the counts by cause; `nil` if the request fails.
    func read() async -> [String: Int]? {
        let text = await withTaskGroup(of: String?.self) { group in
            group.addTask { try? await self.request() }
            group.addTask {
                try? await Task.sleep(for: Self.requestDurationMax)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        return text.map { Self.counts($0, provider: self.provider) }
    }

    private func request() async throws -> String? {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connectTimeout(TimeAmount(Self.requestDurationMax))
            .connect(host: self.endpoint.host, port: self.endpoint.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    return try NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>(
                        wrappingChannelSynchronously: channel
                    )
                }
            }
        return try await channel.executeThenClose { input, output in
            let headers: HTTPHeaders = ["host": "\(self.endpoint)", "connection": "close"]
            try await output.write(
                .head(HTTPRequestHead(version: .http1_1, method: .GET, uri: "/metrics", headers: headers))
            )
            try await output.write(.end(nil))
            var text = ByteBuffer()
            for try await part in input {
                switch part {
                case .head(let head) where head.status != .ok: return nil
                case .body(var piece) where text.readableBytes < Self.answerByteCountMax: text.writeBuffer(&piece)
                case .end: return String(buffer: text)
                default: break
                }
            }
            return nil
        }
    }

    /// Reads the counts of a provider.
    ///
    /// Returns the counts by cause, which an earlier gateway calls `verdict`.
    static func counts(_ text: String, provider: String) -> [String: Int] {
        var counts: [String: Int] = [:]
        let begin = "\(Self.metric){provider=\"\(provider)\","
        for line in text.split(whereSeparator: \.isNewline) where line.hasPrefix(begin) {
            let parts = line.dropFirst(begin.count).split(separator: "\"")
            guard parts.count > 2, ["cause=", "verdict="].contains(parts[0]) else { continue }
            if let count = Int(parts[parts.count - 1].dropFirst("} ".count)) { counts[String(parts[1])] = count }
        }
        return counts
    }

    /// Finds the cause of the one notification that was settled between two readings.
    ///
    /// Returns `nil` if there was none, or more than one.
    static func difference(_ before: [String: Int]?, _ after: [String: Int]?) -> String? {
        guard let before, let after else { return nil }
        let changes = after.filter { $0.value != before[$0.key, default: 0] }
        guard changes.count == 1, let change = changes.first, change.value == before[change.key, default: 0] + 1 else {
            return nil
        }
        return change.key
    }
}
