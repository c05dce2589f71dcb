// SPDX-License-Identifier: Apache-2.0

// Reads and prints the list of dead tokens.
// Arguments: host, port, a PEM file with certificate and key, trusted CA, folder for tokens not printed yet.

// snippet.show
import APNSFeedback
import Glibc

/// Stands for your database: returns when it has the tokens for good.
func forget(_ page: DeadTokenPage) {
    for dead in page { print(dead.token.hexadecimal, dead.failedAt) }
    fflush(nil)
}

func drain(host: String, port: Int, identity: TLSIdentity, trust: TLSTrust, spool: String) async throws {
    let feedback = try FeedbackClient(host: host, port: port, identity: identity, trust: trust, spool: spool)
    let outcome = try await feedback.drain { page in forget(page) }
    print(outcome)
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 5, let port = Int(arguments[2]) else {
    print("usage: DrainFeedback HOST PORT IDENTITY TRUST SPOOL")
    throw CancellationError()
}
try await drain(
    host: arguments[1],
    port: port,
    identity: TLSIdentity(contentsOf: arguments[3]),
    trust: .file(arguments[4]),
    spool: arguments[5]
)
