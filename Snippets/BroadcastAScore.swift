// SPDX-License-Identifier: Apache-2.0

// Creates a broadcast channel, sends two updates of a Live Activity to it, and deletes it.
// Arguments: host and HTTP/2 port of a simulator, trusted CA, certificate, key, bundle identifier of the app.

// snippet.show
import APNSProviderHTTP2

func follow(_ match: String, _ configuration: BroadcastConfiguration) async throws {
    try await BroadcastClient.withClient(configuration) { client in
        // Store it with the match. The app subscribes to its channel.id.text.
        let channel = try await client.createChannel(storing: .noMessage)
        for goals in 1...2 {
            let score: JSONValue = ["home": JSONValue(goals)]
            let aps = APS(liveActivity: .init(.update, timestamp: .now, contentState: score))
            print("\(match), goal \(goals): \(await client.send(BroadcastNotification(to: channel, aps)))")
        }
        try await client.deleteChannel(channel.id)
    }
}

/// Deletes a channel that may be gone already.
func forget(_ id: ChannelID, _ client: BroadcastClient) async throws {
    do throws(BroadcastError) {
        try await client.deleteChannel(id, deadline: .now + .seconds(5))
    } catch {
        if error.rejection?.reason == .channelNotRegistered { return }
        print("again: \(error.retryAdvice)")
        throw error
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count == 7, let port = Int(arguments[2]) else {
    print("usage: BroadcastAScore HOST PORT TRUST CERTIFICATE KEY BUNDLE-ID")
    throw CancellationError()
}
let endpoint = HTTP2Endpoint(host: arguments[1], port: port)
let configuration = BroadcastConfiguration(
    BroadcastEndpoints(sending: endpoint, management: endpoint),
    identity: try TLSIdentity(contentsOf: arguments[4], key: arguments[5]),
    bundleID: arguments[6],
    trust: .file(arguments[3])
)
try await follow("final", configuration)
try await BroadcastClient.withClient(configuration) { client in
    let id = try await client.createChannel(storing: .mostRecentMessage).id
    try await forget(id, client)
    try await forget(id, client)
    print("\(try await client.channelIDs().count) channels")
}
