// SPDX-License-Identifier: Apache-2.0

// Sends a notification over HTTP/2 and reads feedback. Comments show the equivalent calls of other libraries.
// Arguments: host, ports for HTTP/2 and feedback, a folder with provider.p12, passphrase.txt and ca.pem, token.

// snippet.hide
import Glibc

let arguments = CommandLine.arguments
guard arguments.count == 6, let port = Int(arguments[2]), let feedbackPort = Int(arguments[3]),
    chdir(arguments[4]) == 0
else {
    print("usage: CallsOfOtherLibraries HOST PORT FEEDBACK-PORT FOLDER TOKEN")
    throw CancellationError()
}
let host = arguments[1]

// snippet.show
import APNSFeedback
import APNSProviderHTTP2

// setClientCredentials(file, password), createDefaultSSLContext(path, password); pfx and passphrase;
// setProviderCertificatePassphrase($passphrase)
let passphrase = try TLSPassphrase(contentsOf: "passphrase.txt")
let identity = try TLSIdentity(contentsOf: "provider.p12", passphrase: passphrase)

// setTrustedServerCertificateChain(file); ca; setRootCertificationAuthority($path)
let trust = TLSTrust.file("ca.pem")

// SimpleApnsPayloadBuilder, APNSAlertNotification, apn.Notification, ApnsPHP_Message
let aps = APS(alert: .init(title: "Mail", body: "Frank has written."), badge: 3, sound: "chime.aiff")
let payload = Payload(aps, ["from": "Frank"])
let token = try DeviceToken(arguments[5])

// setApnsServer(host, port), APNSClient(configuration:), new apn.Provider(options), new ApnsPHP_Push(environment, path)
let configuration = PushClientConfiguration.http2(
    HTTP2Endpoint(host: host, port: port),
    identity: identity,
    trust: trust
)
try await PushClient.withClient(configuration) { client in
    // sendNotification(notification), sendAlertNotification(_:deviceToken:), provider.send(note, token), $push->send()
    switch await client.send(PushNotification(to: token, payload)) {
    case .accepted: print("accepted")  // response.isAccepted(), result.sent
    case .rejected(let rejection): print(rejection)  // getRejectionReason(), APNSError, result.failed, getErrors()
    case let outcome: print("to be sent again: \(outcome)")  // a future that failed, a thrown error, result.failed
    }
}

// requestExpiredTokens(), new apn.Feedback(options).on("feedback", ...), $feedback->receive()
let feedback = try FeedbackClient(host: host, port: feedbackPort, identity: identity, trust: trust, spool: "spool")
try await feedback.drain { page in
    for dead in page { print("\(dead.token.hexadecimal) since \(dead.failedAt)") }
}
