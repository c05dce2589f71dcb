// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser

/// `apns-legacy purge`: what is done with the list of dead tokens.
public struct PurgeCommand: AsyncParsableCommand, Sendable {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Keep the list of dead tokens, and prune token tables from it.",
        subcommands: [PurgeApplyCommand.self]
    )

    /// Makes a command to be parsed.
    public init() {}
}
