// SPDX-License-Identifier: Apache-2.0

// Sends one notification to each token, and prints its outcome.
// Arguments: host, port, a folder with provider.p12, passphrase.txt and ca.pem, tokens.

// snippet.hide
import Glibc

let arguments = CommandLine.arguments
guard arguments.count > 4, let port = Int(arguments[2]), chdir(arguments[3]) == 0 else {
    print("usage: SendOneByOne HOST PORT FOLDER TOKEN...")
    throw CancellationError()
}
let (host, tokens) = (arguments[1], Array(arguments[4...]))

// snippet.show
import APNSProvider

let passphrase = try TLSPassphrase(contentsOf: "passphrase.txt")
let identity = try TLSIdentity(contentsOf: "provider.p12", passphrase: passphrase)
let configuration = PushClientConfiguration.binary(host: host, port: port, identity: identity, trust: .file("ca.pem"))

try await PushClient.withClient(configuration) { client in
    for token in tokens {
        let notification = PushNotification(to: try DeviceToken(token), APS(alert: "Hello", badge: 1))
        let outcome = await client.send(notification)
        print("\(token.prefix(8))... \(outcome)")
    }
}
