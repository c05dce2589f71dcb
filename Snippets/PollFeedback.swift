// SPDX-License-Identifier: Apache-2.0

// Reads and prints the list of dead tokens every hour, until it is asked to end.
// Arguments: host, port, a PEM file with certificate and key, trusted CA, folder for tokens not printed yet.

// snippet.show
import APNSFeedback
import Glibc
import Logging
import ServiceLifecycle

func poll(_ feedback: FeedbackClient) async throws {
    let poller = FeedbackPoller([feedback], every: .seconds(3600)) { page in
        for dead in page { print(dead.token.hexadecimal, dead.failedAt) }
        fflush(nil)
    }
    let logger = Logger(label: "feedback")
    try await ServiceGroup(services: [poller], gracefulShutdownSignals: [.sigterm], logger: logger).run()
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 5, let port = Int(arguments[2]) else {
    print("usage: PollFeedback HOST PORT IDENTITY TRUST SPOOL")
    throw CancellationError()
}
let client = try FeedbackClient(
    host: arguments[1],
    port: port,
    identity: TLSIdentity(contentsOf: arguments[3]),
    trust: .file(arguments[4]),
    spool: arguments[5]
)
try await poll(client)
