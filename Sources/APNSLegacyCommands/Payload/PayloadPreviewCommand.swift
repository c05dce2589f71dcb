// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import ArgumentParser
import Batch

/// `apns-legacy payload preview`: shows a payload as the user of the device sees it.
struct PayloadPreviewCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "preview",
        abstract: "Print what a device would show.",
        discussion: """
            Examples:
              apns-legacy payload preview payload.json
              apns-legacy payload preview --strings Localizable.strings payload.json

            \(ExitStatus.list(
                [
                    .success: "done",
                    .someRefused: "a payload is not valid",
                ],
                .dataError, .noInput, .ioError
            ))
            """
    )

    @OptionGroup var input: PayloadInputOptions

    @Option(help: .value("file", "The app's Localizable.strings, in the language of the user."), completion: .file())
    var strings: String?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let strings = try self.strings.map { try Self.read($0, environment.console) } ?? [:]
        return try self.input.examine(environment) { input in
            switch input.payload.flatMap({ payload in
                Result { () throws(PayloadProblem) in try Self.text(of: payload, strings) }.mapError { .problem($0) }
            }) {
            case .success(let text):
                try environment.console.write(input.lineNumber == nil ? text : "\(input.printableName)\n\(text)\n")
                return nil
            case .failure(let refusal): return input.diagnostic(of: refusal)
            }
        }
    }

    /// The maximum size of a file of texts, in bytes.
    private static let stringsByteCountMax = 16 << 20

    private static func read(_ path: String, _ console: Console) throws -> LocalizedStrings {
        guard let bytes = try console.open(path).readAll(byteCountMax: Self.stringsByteCountMax) else {
            throw CommandFailure(.dataError, "\(path) has more than \(Self.stringsByteCountMax) bytes")
        }
        do {
            return try LocalizedStrings(parsing: bytes)
        } catch {
            let failure = Diagnostic(.error, "\(path), \(error)", place: .init(file: path, line: error.line))
            throw CommandFailure(.dataError, failure)
        }
    }

    /// The lines to print: the texts, then other effects.
    private static func text(of payload: Payload, _ strings: LocalizedStrings) throws(PayloadProblem) -> String {
        try payload.check(rules: PayloadRules(byteCountMax: .max, checksKnownKeys: false))
        let aps = try payload.value()["aps"]
        let alert = try payload.alertPreview(strings)
        var lines = [alert?.title, alert?.subtitle, alert?.body].compactMap(\.self).map { "  " + Self.shown($0) }
        for key in alert?.missingKeys ?? [] { lines.append("There is no text for \(key.printable()).") }
        if case .number(let badge)? = aps?["badge"] {
            lines.append(badge.integer == 0 ? "The badge is removed." : "The badge is \(badge.text).")
        }
        if let sound = aps?["sound"] {
            let name = sound.string ?? sound["name"]?.string ?? "default"
            lines.append("The sound is \(name.printable()).")
        }
        if case .number(let value)? = aps?["content-available"], value.integer == 1 {
            lines.append(
                alert == nil ? "The app is woken in the background, and nothing is shown." : "The app is woken, too."
            )
        }
        if lines.isEmpty { lines.append("Nothing is shown.") }
        return lines.joined(separator: "\n") + "\n"
    }

    /// A text that keeps its line breaks.
    private static func shown(_ text: String) -> String { text.printable(lineBreak: "\n  ") }
}
