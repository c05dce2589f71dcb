// SPDX-License-Identifier: Apache-2.0

// Sends one notification to each of some tokens, and prints what became of it.
// Arguments: host, port, certificate, key, trusted CA, tokens.

// snippet.show
import APNSProvider

func send(to tokens: [String], _ configuration: PushClientConfiguration) async throws {
    try await PushClient.withClient(configuration) { client in
        for token in tokens {
            let payload = #"{"aps":{"alert":"Hello"}}"#
            let outcome = await client.send(PushNotification(token: try DeviceToken(token), payload: payload))
            print("\(token.prefix(8))... \(outcome)")
        }
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 6, let port = Int(arguments[2]) else {
    print("usage: SendOneByOne HOST PORT CERTIFICATE KEY TRUST TOKEN...")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
try await send(
    to: Array(arguments[6...]),
    .binary(host: arguments[1], port: port, identity: identity, trust: .file(arguments[5]))
)
