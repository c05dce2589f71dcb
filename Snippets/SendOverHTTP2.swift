// SPDX-License-Identifier: Apache-2.0

// Sends one notification over the HTTP/2 provider API, with a certificate or an Apple key (.p8).
// Arguments: host, port, trusted CA, token, then certificate and key, or the .p8 file, key ID, team ID and topic.

// snippet.show
import APNSProviderHTTP2

func byCertificate(_ endpoint: HTTP2Endpoint, _ files: [String], _ trust: TLSTrust) throws -> PushClientConfiguration {
    .http2(endpoint, identity: try TLSIdentity(contentsOf: files[0], key: files[1]), trust: trust)
}

func byKey(_ endpoint: HTTP2Endpoint, _ words: [String], _ trust: TLSTrust) throws -> PushClientConfiguration {
    try .http2(endpoint, p8: words[0], keyID: words[1], teamID: words[2], topic: words[3], trust: trust)
}

func send(to token: String, _ configuration: PushClientConfiguration) async throws {
    try await PushClient.withClient(configuration) { client in
        var notification = PushNotification(to: try DeviceToken(token), #"{"aps":{"alert":"Hello"}}"#)
        notification.collapseID = "greeting"
        print(await client.send(notification))
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count == 7 || arguments.count == 9, let port = Int(arguments[2]) else {
    print("usage: SendOverHTTP2 HOST PORT TRUST TOKEN (CERTIFICATE KEY | P8 KEY-ID TEAM-ID TOPIC)")
    throw CancellationError()
}
let endpoint = HTTP2Endpoint(host: arguments[1], port: port)
let rest = Array(arguments[5...])
let trust = TLSTrust.file(arguments[3])
let configuration = try rest.count == 2 ? byCertificate(endpoint, rest, trust) : byKey(endpoint, rest, trust)
try await send(to: arguments[4], configuration)
