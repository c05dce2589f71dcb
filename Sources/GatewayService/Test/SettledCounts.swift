// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSTransport
import APNSWire
import NIOCore
import NIOHTTP1

/// The number of notifications of a provider that a running gateway has settled, by cause, from its admin address.
struct SettledCounts: Sendable {
    /// The path of the counts of all providers.
    static let path = "/settled"
    private static let requestDurationMax = Duration.seconds(5)
    /// The maximum size of the answer, in bytes.
    private static let answerByteCountMax = 4 << 20

    private let endpoint: Endpoint
    private let provider: String

    init(_ endpoint: Endpoint, provider: String) {
        self.endpoint = endpoint
        self.provider = provider
    }

    /// Requests the counts.
    ///
    /// Returns those by cause; `nil` if the request fails, as with a gateway of an earlier version.
    func read() async -> [String: Int]? {
        let exchange = HTTPExchange(
            endpoint: self.endpoint,
            timeout: Self.requestDurationMax,
            bodyByteCountMax: Self.answerByteCountMax
        )
        let headers: HTTPHeaders = ["host": "\(self.endpoint)"]
        let response = try? await exchange.response(.GET, Self.path, headers: headers)
        guard let response, response.status == 200 else { return nil }
        return Self.counts(in: response.body, provider: self.provider)
    }

    /// The counts of all providers as JSON: an object by provider, whose values are objects by cause.
    static func json(_ counts: [String: [String: Int]]) -> String {
        let value = JSONValue.object(counts.mapValues { .object($0.mapValues { JSONValue($0) }) })
        return String(decoding: value.bytes, as: UTF8.self) + "\n"
    }

    /// Reads the counts of a provider.
    private static func counts(in answer: ByteBuffer, provider: String) -> [String: Int]? {
        guard case .object(let providers)? = try? JSONValue(parsing: Array(answer.readableBytesView)) else {
            return nil
        }
        guard case .object(let counts)? = providers[provider] else { return [:] }
        return counts.compactMapValues { if case .number(let number) = $0 { number.integer } else { nil } }
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
