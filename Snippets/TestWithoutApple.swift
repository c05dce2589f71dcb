// SPDX-License-Identifier: Apache-2.0

// Runs a simulator in this process, and sends to it over mutual TLS.

// snippet.show
import APNSProvider
import APNSSimulator
import APNSTestKit
import APNSWire
import OpenSSLTLS

let authority = try TestCertificateAuthority()
let gateway = try authority.issueServer(names: ["localhost"])
let provider = try authority.issueClient(topic: "com.example.app")
let trust = TLSTrust.pem(authority.certificatePEM)

let known = try DeviceToken(bytes: [UInt8](repeating: 1, count: 32))
let unknown = try DeviceToken(bytes: [UInt8](repeating: 2, count: 32))
let simulated = SimulatorConfiguration(
    identity: gateway.identity,
    clientTrust: trust,
    devices: [SimulatedDevice(token: known, topic: "com.example.app")]
)

try await Simulator.withRunning(simulated) { simulator in
    let port = simulator.gatewayPort
    let configuration = PushClientConfiguration.binary(
        host: "localhost",
        port: port,
        identity: provider.identity,
        trust: trust
    )
    try await PushClient.withClient(configuration) { client in
        for token in [known, unknown, known] {
            print(await client.send(PushNotification(token: token, payload: #"{"aps":{"badge":1}}"#)))
        }
    }
    print("taken: \(simulator.statistics.processedCount), refused: \(simulator.statistics.rejectedCount)")
}
