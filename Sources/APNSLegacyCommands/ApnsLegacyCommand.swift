// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser

/// `apns-legacy`: all commands.
public struct ApnsLegacyCommand: AsyncParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "apns-legacy",
        abstract: "Keeps certificate-era Apple push providers running.",
        version: "0.1.0",
        subcommands: [
            QuickstartCommand.self, SendCommand.self, FeedbackCommand.self, PurgeCommand.self, GatewayCommand.self,
            SimulatorCommand.self,
        ]
    )

    /// Makes a command to be parsed.
    public init() {}
}
