// SPDX-License-Identifier: Apache-2.0

// Reads the list of dead tokens into an actor, and prints them.
// Arguments: host, port, a PEM file with certificate and key, trusted CA, folder for tokens not printed yet.

// snippet.show
import APNSFeedback
import Glibc

/// Stands for your database, with the time at which each token was last registered.
actor Registrations {
    private var times: [DeviceToken: Timestamp] = [:]

    func register(_ token: DeviceToken) { self.times[token] = .now }

    // The closure runs on this actor, and returns when the tokens are removed for good.
    func drain(_ feedback: FeedbackClient) async throws {
        let report = try await feedback.drain { page in
            for dead in page where self.times[dead.token] ?? dead.failedAt <= dead.failedAt {
                self.times[dead.token] = nil
                print(dead.token.hexadecimal, dead.failedAt)
            }
            fflush(nil)
        }
        print(report)
    }
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 5, let port = Int(arguments[2]) else {
    print("usage: DrainFeedback HOST PORT IDENTITY TRUST SPOOL")
    throw CancellationError()
}
let client = try FeedbackClient(
    host: arguments[1],
    port: port,
    identity: TLSIdentity(contentsOf: arguments[3]),
    trust: .file(arguments[4]),
    spool: arguments[5]
)
try await Registrations().drain(client)
