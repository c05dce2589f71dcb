// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An independent provider from PyPI, in its own process.
package struct PythonProvider: Sendable, CustomStringConvertible {
    /// A status, or the provider's own name of it.
    package enum Reason: Decodable, Equatable, Sendable {
        case status(Int)
        case words(String)

        package init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let status = try? container.decode(Int.self) {
                self = .status(status)
            } else {
                self = .words(try container.decode(String.self))
            }
        }
    }

    /// The outcomes that it reports, by token.
    package struct Outcome: Decodable {
        package var succeeded: [String]
        package var failed: [String: Reason]
    }

    package let description: String
    /// Its report for a rejected token.
    package let invalidToken: Reason
    private let release: String
    private var others: [String] = []

    /// Sends items of command 2.
    package static let pushjack = PythonProvider(
        description: "pushjack",
        invalidToken: .status(8),
        release: "pushjack==1.6.0",
        // It imports pkg_resources.
        others: ["setuptools==65.5.0"]
    )

    /// Sends notifications of command 1.
    package static let apnsClerk = PythonProvider(
        description: "apns-clerk",
        invalidToken: .words("Invalid token"),
        release: "apns-clerk==0.2.0"
    )

    package static let all = [pushjack, apnsClerk]

    /// The program that uses these packages.
    package static let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Interop/python_clients.py").path

    /// Sends one notification to each token in a file with one token per line.
    package func send(port: Int, identity: String, trust: String, tokens: String) async throws -> Outcome {
        let environment = try await PythonEnvironment(self.release, with: self.others)
        let files = ["--identity", identity, "--trust", trust, "--tokens", tokens]
        let printed = try await Program.run(
            environment.python,
            [Self.script, self.description, "--port", "\(port)"] + files,
            deadlineSeconds: 60
        )
        return try JSONDecoder().decode(Outcome.self, from: printed)
    }
}
