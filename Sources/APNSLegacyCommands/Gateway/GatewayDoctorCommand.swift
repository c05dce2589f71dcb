// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Batch
import GatewayService

/// `apns-legacy gateway doctor`: finds out what an unknown provider does, and which settings suit it.
struct GatewayDoctorCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find out what an old provider does, and which settings suit it.",
        discussion: """
            Examples:
              apns-legacy gateway doctor --config gateway.yaml

            Listens instead of the gateway, with its addresses and certificate, and delivers nothing. Let the provider \
            send as usual. Some connections are accepted, on others the first notification is rejected, soon or after \
            two seconds, or the connection ends with status 10, with a reset, or without an answer. What the provider \
            sends again afterwards shows whether it reads error responses.

            It ends after 21 connections with notifications or a few more, four for each of these, or when it is \
            interrupted or terminated, and prints what it saw and the lines for the configuration. A connection that a \
            provider keeps is closed after 10 seconds, so that the provider meets the next trial when it connects again.

            \(ExitStatus.list(
                [
                    .success: "21 connections sent notifications",
                    .someRefused: "interrupted before that; the report covers what was seen",
                    .unavailable: "an address cannot be listened on",
                ],
                .noInput, .configuration
            ))
            """
    )

    @OptionGroup var file: GatewayFileOptions

    @Option(help: .value("name", "The provider for whose settings lines are printed. (default: the first one)"))
    var provider: String?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .server }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let configuration = try self.file.configuration(environment)
        let names = configuration.providers.map(\.file.name)
        guard let name = self.provider ?? names.first, names.contains(name) else {
            throw self.file.missing(provider: self.provider, in: configuration)
        }
        let console = environment.console
        let (events, continuation) = AsyncStream.makeStream(of: Void.self)
        let doctor = GatewayDoctor(configuration, logger: environment.logger(isVerbose: false)) { connection in
            console.emit(connection.text)
            continuation.yield()
        }
        environment.receiveSignals([]) { [stops = environment.stops] signal in
            if stops.receive(signal) != nil { continuation.finish() }
        }
        try await doctor.withRunning { port, feedbackPort in
            try console.write("gateway \(port) feedback \(feedbackPort)\n")
            console.emit("Let the provider send as usual; nothing is delivered. Interrupt or terminate it to end.")
            for await _ in events where doctor.isComplete { break }
        }
        try self.report(doctor.habits, provider: name, environment)
        return doctor.isComplete ? .success : .someRefused
    }

    private func report(
        _ habits: ProviderHabits,
        provider: String,
        _ environment: CommandEnvironment
    ) throws {
        let lines = habits.lines
        let width = (lines.map(\.name.count).max() ?? 0) + 2
        var text = lines.map { name, value in
            "\(name)\(String(repeating: " ", count: width - name.count))\(value)\n"
        }.joined()
        let settings = habits.settings(provider: provider)
        let problem = habits.problem
        if let problem {
            text += "\n\(problem)\n"
            environment.summary.set("problem", problem)
        }
        if !settings.isEmpty {
            text += "\nFor the sections of these names in \(self.file.config):\n\n"
            text += settings.map { $0 + "\n" }.joined()
        } else if problem == nil {
            text += "\nThe configuration needs no other settings for it.\n"
        }
        environment.summary.set("observed", lines.map { "\($0.name): \($0.value)" })
        environment.summary.set("settings", settings)
        try environment.report(text)
    }
}

extension ObservedConnection {
    /// The connection in one line.
    fileprivate var text: String {
        let count = self.messages.count + self.omittedCount
        let version = self.tlsVersion.map { "\($0)" } ?? "TLS"
        let sent = count == 0 ? "no notification" : "\(count) \(count == 1 ? "notification" : "notifications")"
        let rejected = self.invalid.isEmpty ? "" : ", \(self.invalid.count) not valid (\(self.invalid[0]))"
        let trial = count == 0 ? "" : ", \(self.trial.text)"
        return "connection \(self.number), \(version): \(sent)\(rejected)\(trial)"
    }
}
