// SPDX-License-Identifier: Apache-2.0

// Sends one payload to many tokens on the event loop of the connection, and counts the outcomes.
// Arguments: host, port, certificate, key, trusted CA, number of tokens; a million by default.

// snippet.show
import APNSProvider
import Synchronization

/// The same payload for many tokens; a tag is the index of a token.
final class Campaign: NotificationSource {
    private let tokens: [DeviceToken]
    private let payload: [UInt8]
    private let state = Mutex<(next: Int, counts: [String: Int])>((0, [:]))

    init(_ tokens: [DeviceToken], payload: String) {
        self.tokens = tokens
        self.payload = Array(payload.utf8)
    }

    var counts: [String: Int] { self.state.withLock { $0.counts } }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.payload.withUnsafeBytes { payload in
            self.state.withLock { state in
                while state.next < self.tokens.count {
                    let token = self.tokens[state.next]
                    let isTaken = batch.append(token: token, payload: payload, tag: UInt64(state.next))
                    guard isTaken else { return .available }
                    state.next += 1
                }
                return .ended
            }
        }
    }

    func settle(_ settled: borrowing SettledNotifications) {
        let (outcome, count) = (settled.outcome.name, settled.count)
        self.state.withLock { $0.counts[outcome, default: 0] += count }
    }
}

func send(to tokens: [DeviceToken], _ configuration: BinaryConfiguration) async throws {
    let campaign = Campaign(tokens, payload: #"{"aps":{"alert":"Hello"}}"#)
    defer { print(campaign.counts) }
    try await BatchSender(configuration).run(campaign)
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 5, let port = Int(arguments[2]) else {
    print("usage: SendABatch HOST PORT CERTIFICATE KEY TRUST [COUNT]")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
let tls = TLSConfiguration.client(identity: identity, trust: .file(arguments[5]))
let configuration = BinaryConfiguration(endpoint: Endpoint(host: arguments[1], port: port), tls: tls)
let count = arguments.count > 6 ? Int(arguments[6]) ?? 0 : 1_000_000
let tokens = try (0..<count).map { index in
    try DeviceToken(bytes: (0..<32).map { UInt8(truncatingIfNeeded: index >> ($0 % 8 * 8)) })
}
try await send(to: tokens, configuration)
