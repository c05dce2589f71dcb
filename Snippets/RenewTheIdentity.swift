// SPDX-License-Identifier: Apache-2.0

// Sends a notification with one certificate, and the next one with its replacement.
// Arguments: host, port, trusted CA, token, two PEM files with certificate and key.

// snippet.show
import APNSProvider
import Synchronization

/// Sends with the newest certificate, behind the interface of a single client.
final class RenewableClient: Sendable {
    private let newest: Mutex<PushClient>
    private let clients: AsyncStream<PushClient>
    private let started: AsyncStream<PushClient>.Continuation

    init(_ configuration: PushClientConfiguration) throws {
        let client = try PushClient(configuration)
        self.newest = Mutex(client)
        (self.clients, self.started) = AsyncStream.makeStream()
        self.started.yield(client)
    }

    func send(_ notification: PushNotification) async -> DeliveryOutcome {
        while true {
            let client = self.newest.withLock { $0 }
            let outcome = await client.send(notification)
            // The identity was renewed meanwhile, and the notification was not sent.
            if outcome == .unsent(.stopped), self.newest.withLock({ $0 !== client }) { continue }
            return outcome
        }
    }

    /// Sends with a new identity from now on; earlier notifications are verified on the old connections.
    func renew(_ configuration: PushClientConfiguration) throws {
        let client = try PushClient(configuration)
        self.started.yield(client)
        self.newest.withLock { old in
            old.finish()
            old = client
        }
    }

    func finish() {
        self.started.finish()
        self.newest.withLock { $0.finish() }
    }

    func run() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            for await client in self.clients { group.addTask { try await client.run() } }
        }
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count == 7, let port = Int(arguments[2]) else {
    print("usage: RenewTheIdentity HOST PORT TRUST TOKEN IDENTITY IDENTITY")
    throw CancellationError()
}
let configurations = try arguments[5...].map { path in
    let identity = try TLSIdentity(contentsOf: path)
    return PushClientConfiguration.binary(
        host: arguments[1],
        port: port,
        identity: identity,
        trust: .file(arguments[3])
    )
}
let notification = PushNotification(to: try DeviceToken(arguments[4]), #"{"aps":{"badge":1}}"#)
let client = try RenewableClient(configurations[0])
async let running: Void = client.run()
print(await client.send(notification))
try client.renew(configurations[1])
print(await client.send(notification))
client.finish()
try await running
