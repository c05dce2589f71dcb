// SPDX-License-Identifier: Apache-2.0

// Runs a simulator with the example certificates until it is interrupted. It accepts every token except ffff... (64
// times f), which it rejects with status 8 (invalid token). Argument: the port, 2195 by default.

// snippet.show
import APNSTestKit

let port = CommandLine.arguments.count > 1 ? Int(CommandLine.arguments[1]) : 2195
let folder = "certs-example"
let identity = try TLSIdentity(contentsOf: "\(folder)/gateway.pem", key: "\(folder)/gateway.key.pem")
var configuration = try SimulatorConfiguration(tls: .server(identity: identity, trust: .file("\(folder)/ca.pem")))
configuration.listener.port = port ?? 2195
configuration.acceptsUnknownTokens = true
configuration.faults = [Fault(at: .token(prefix: String(repeating: "f", count: 64)), .reject(status: 8))]
configuration.onReceive = { notification in
    print("\(notification.token?.hexadecimal.prefix(8) ?? "no token")... \(notification.payloadText)")
}
try await Simulator.withRunning(configuration) { simulator in
    print("Push gateway for providers with a certificate of \(folder)/ca.pem: localhost:\(simulator.gatewayPort)")
    try await Task.sleep(for: .seconds(86_400))
}
