// SPDX-License-Identifier: Apache-2.0

// Runs a simulator in this process, sends to it over mutual TLS, and prints what arrived.

// snippet.show
import APNSProvider
import APNSTestKit

let authority = try CertificateAuthority()
let identity = try authority.issueClient(topic: "com.example.app").identity
let simulated = try SimulatorConfiguration(tls: authority.makeServerTLS())
var acceptedCount = 0

try await Simulator.withRunning(simulated) { simulator in
    let known = simulator.register(topic: "com.example.app")
    let unknown = try DeviceToken(bytes: [UInt8](repeating: 2, count: 32))
    let port = simulator.gatewayPort
    let configuration = PushClientConfiguration.binary(
        host: "localhost",
        port: port,
        identity: identity,
        trust: authority.trust
    )
    try await PushClient.withClient(configuration) { client in
        for token in [known, unknown, known] {
            let outcome = await client.send(PushNotification(to: token, #"{"aps":{"badge":1}}"#))
            if outcome == .accepted { acceptedCount += 1 }
            print(outcome)
        }
    }
    let arrived = try await simulator.next(for: known, within: .seconds(10))
    print("arrived: \(arrived.payloadText)")
    print("taken: \(simulator.statistics.processedCount), refused: \(simulator.statistics.rejectedCount)")
}
print("accepted: \(acceptedCount)")
