// SPDX-License-Identifier: Apache-2.0

// Runs a gateway of the binary protocol that puts notifications into inboxes, until it is asked to end.
// Arguments: a PEM file with certificate and key, trusted CA of the providers, tokens of the inboxes.

// snippet.show
import APNSGateway
import Glibc
import Logging
import ServiceLifecycle

/// Admits the providers with a certificate for one of these topics.
struct Customers: GatewayAdmission {
    let names: [String: String]

    func admit(_ connection: ProviderConnection) async throws -> GatewayProvider? {
        guard let topic = connection.identity.topic, let name = self.names[topic] else { return nil }
        return GatewayProvider(name: name, topic: topic)
    }
}

/// Stands for a table of your database with a key and a value.
actor Rows: GatewayStore {
    private var rows: [String: String] = [:]

    func load() -> [String: String] { self.rows }

    func save(_ rows: [String: String?]) {
        for (key, value) in rows { self.rows[key] = value }
    }
}

/// Stands for your way to the devices.
struct Inboxes: GatewayUpstream {
    let tokens: Set<DeviceToken>

    func deliver(_ notification: PushNotification, from provider: GatewayProvider) async -> DeliveryOutcome {
        guard self.tokens.contains(notification.token) else { return .rejected(.binary(.invalidToken)) }
        print("\(provider.name): \(notification.payloadText)")
        fflush(nil)
        return .accepted
    }
}

func makeGateway(_ identity: TLSIdentity, _ clientTrust: TLSTrust, _ tokens: Set<DeviceToken>) -> PushGateway {
    let configuration = PushGatewayConfiguration(identity: identity, clientTrust: clientTrust, port: 0, feedbackPort: 0)
    let customers = Customers(names: ["com.example.app": "example"])
    return PushGateway(configuration, admission: customers, store: Rows(), upstream: Inboxes(tokens: tokens))
}

func run(_ gateway: PushGateway) async throws {
    let logger = Logger(label: "gateway")
    try await ServiceGroup(services: [gateway], gracefulShutdownSignals: [.sigterm], logger: logger).run()
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 3 else {
    print("usage: RunAGateway IDENTITY TRUST TOKEN...")
    throw CancellationError()
}
let gateway = makeGateway(
    try TLSIdentity(contentsOf: arguments[1]),
    .file(arguments[2]),
    Set(try arguments[3...].map { try DeviceToken($0) })
)
Task {
    print("port \(try await gateway.port)")
    fflush(nil)
}
try await run(gateway)
