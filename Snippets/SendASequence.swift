// SPDX-License-Identifier: Apache-2.0

// Sends to the rows of a database, and deletes those whose tokens are dead.
// Arguments: host, port, certificate, key, trusted CA, tokens.

// snippet.show
import APNSProvider

struct Device: Sendable {
    let userID: String
    let token: DeviceToken
}

func greet(_ devices: AsyncStream<Device>, _ client: PushClient, forget: @Sendable (String) -> Void) async throws {
    let greeting = APS(alert: "Hello", badge: 2)
    let rows = devices.map { (id: $0.userID, notification: PushNotification(to: $0.token, greeting)) }
    for try await record in client.send(rows, only: .exceptions) where record.outcome.isDeadToken {
        forget(record.id)
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 6, let port = Int(arguments[2]) else {
    print("usage: SendASequence HOST PORT CERTIFICATE KEY TRUST TOKEN...")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
let configuration = PushClientConfiguration.binary(
    host: arguments[1],
    port: port,
    identity: identity,
    trust: .file(arguments[5])
)
let tokens = try arguments[6...].map { try DeviceToken($0) }
try await PushClient.withClient(configuration) { client in
    let devices = AsyncStream<Device> { continuation in
        for (number, token) in tokens.enumerated() { continuation.yield(Device(userID: "user\(number)", token: token)) }
        continuation.finish()
    }
    try await greet(devices, client) { print("forget \($0)") }
}
