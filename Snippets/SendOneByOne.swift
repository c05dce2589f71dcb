// SPDX-License-Identifier: Apache-2.0

// Sends one notification to each of some tokens, and prints what became of it.
// Arguments: host, port, certificate, key, trusted CA, tokens.

// snippet.show
import APNSProvider
import APNSWire
import OpenSSLTLS

func send(to tokens: [String], _ configuration: ProviderConfiguration) async throws {
    try await Provider.withProvider(configuration) { settlement in
        for number in settlement.numbers {
            print("\(tokens[Int(number)].prefix(8))... \(settlement.outcome)")
        }
    } _: { provider in
        for token in tokens {
            let payload = #"{"aps":{"alert":"Hello"}}"#
            try await provider.send(PushNotification(token: DeviceToken(token), payload: payload))
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
let tls = TLSConfiguration.client(identity: identity, trust: .file(arguments[5]))
let configuration = ProviderConfiguration(endpoint: Endpoint(host: arguments[1], port: port), tls: tls)
try await send(to: Array(arguments[6...]), configuration)
