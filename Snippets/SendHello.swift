// SPDX-License-Identifier: Apache-2.0

// Sends one notification to the simulator of the README, and prints its outcome.

// snippet.show
import APNSProvider

let identity = try TLSIdentity(contentsOf: "apns/provider-combined.pem")
let trust = TLSTrust.file("apns/authority.pem")
let gateway = PushClientConfiguration.binary(host: "localhost", port: 12195, identity: identity, trust: trust)
let token = try DeviceToken(String(repeating: "1", count: 64))
try await PushClient.withClient(gateway) { client in
    let outcome = await client.send(PushNotification(to: token, APS(alert: "Hello", badge: 1)))
    print(outcome)
}
