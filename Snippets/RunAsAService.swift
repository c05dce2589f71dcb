// SPDX-License-Identifier: Apache-2.0

// Runs a client next to other services, until a signal.
// Arguments: host, port, certificate, key, trusted CA, token.

// snippet.show
import APNSProvider
import Logging
import ServiceLifecycle

/// A part of a server that sends notifications.
struct Orders: Service {
    let client: PushClient
    let token: DeviceToken

    func run() async throws {
        while !Task.isShuttingDownGracefully {
            // A shutdown cancels only the pause: a cancelled task would not wait for the outcome.
            let outcome = await client.send(PushNotification(to: token, #"{"aps":{"badge":1}}"#))
            print(outcome)
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .milliseconds(100)) }
        }
    }
}

func serve(_ configuration: PushClientConfiguration, _ token: DeviceToken) async throws {
    let client = try PushClient(configuration)
    // Services end in reverse order, so the notifications of the orders are verified before the client ends.
    let services: [any Service] = [client, Orders(client: client, token: token)]
    let group = ServiceGroup(
        services: services,
        gracefulShutdownSignals: [.sigterm],
        logger: Logger(label: "orders")
    )
    try await group.run()
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count == 7, let port = Int(arguments[2]) else {
    print("usage: RunAsAService HOST PORT CERTIFICATE KEY TRUST TOKEN")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
try await serve(
    .binary(host: arguments[1], port: port, identity: identity, trust: .file(arguments[5])),
    try DeviceToken(arguments[6])
)
