// SPDX-License-Identifier: Apache-2.0

// Sends one notification, and waits at most two seconds for its outcome.
// Arguments: host, port, certificate, key, trusted CA, token.

// snippet.show
import APNSProvider

/// Whether the notification was accepted; `nil` if it must be sent again later.
func ring(_ token: DeviceToken, _ client: PushClient) async -> Bool? {
    let call = PushNotification(to: token, APS(alert: "Frank is calling"))
    let report = await client.report(of: call, deadline: .now + .seconds(2))
    switch report.retryAdvice {
    case .never: return report.outcome == .accepted
    case .safe, .later, .mayDuplicate: return nil
    @unknown default: return nil
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count == 7, let port = Int(arguments[2]) else {
    print("usage: SendInTime HOST PORT CERTIFICATE KEY TRUST TOKEN")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
let trust = TLSTrust.file(arguments[5])
let token = try DeviceToken(arguments[6])
let configuration = PushClientConfiguration.binary(host: arguments[1], port: port, identity: identity, trust: trust)
try await PushClient.withClient(configuration) { client in
    print(await ring(token, client).map { $0 ? "accepted" : "not accepted" } ?? "to be sent again")
}
