// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import ArgumentParser
import Foundation
import TestSupport
import Testing

/// The help of every command.
@Suite(.timeLimit(.minutes(2))) struct HelpTests {
    /// The names of all commands, starting with the program's own.
    static let commands: [[String]] = {
        let groups = ["purge", "gateway", "payload", "certificate", "certificate new"]
        let inner = [
            "purge list", "purge export", "purge import", "purge forget", "purge stats", "purge apply", "purge check",
            "purge expire", "gateway run", "gateway init", "gateway check", "gateway test", "payload check",
            "payload size", "payload minify", "payload truncate", "payload preview", "payload build",
            "certificate show", "certificate check", "certificate convert", "certificate new authority",
            "certificate new server", "certificate new client",
        ]
        let all = ["", "quickstart", "send", "feedback", "simulator"] + groups + inner
        return all.map { $0.split(separator: " ").map(String.init) }
    }()

    @Test(arguments: HelpTests.commands) func `help has examples before options, in 80 columns`(
        _ words: [String]
    ) async throws {
        let help = try await CommandRun(words + ["--help"])
        #expect(help.code == 0 && help.error.isEmpty, "\(help)")
        #expect(try await CommandRun(["help"] + words).output == help.output)
        let lines = help.output.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(lines.filter { $0.count > 80 } == [])
        #expect(lines.filter { $0.hasSuffix(" ") } == [])
        #expect(lines[0].hasPrefix("OVERVIEW: ") && lines[0].count > 20)
        let examples = try #require(lines.firstIndex(of: "Examples:"))
        let options = try #require(lines.firstIndex { $0.hasPrefix("  -h, --help") })
        #expect(examples < options)
        // The following lines are command lines of this command or its subcommands.
        let command = (["apns-legacy"] + words).joined(separator: " ")
        let shown = lines[(examples + 1)...].prefix { !$0.isEmpty }.filter { $0.hasPrefix("  apns-legacy") }
        #expect((1...4).contains(shown.count), "\(shown)")
        #expect(shown.allSatisfy { $0.hasPrefix("  " + command) }, "\(shown)")
    }

    @Test(arguments: HelpTests.commands) func `every option has a sentence, and the examples parse`(
        _ words: [String]
    ) async throws {
        let help = try await CommandRun(words + ["--help"]).output
        let lines = help.split(separator: "\n").map(String.init)
        for (line, next) in zip(lines, lines.dropFirst()) where line.hasPrefix("  -") {
            // After a long name, the text is on the next line.
            let text = line.dropFirst(25).first == " " ? line.dropFirst(26) : next.dropFirst(26)
            #expect(text.first?.isUppercase == true && text.count > 5, "\(line)")
        }
        // A line that ends with a backslash continues on the next one.
        let text = help.replacing("\\\n", with: " ")
        for line in text.split(separator: "\n") where line.hasPrefix("  apns-legacy") {
            var example = line.trimmingPrefix("  apns-legacy").split(separator: ">")[0]
            example = example.drop { $0 == " " }
            let problem = try await Self.problem(Self.words(of: String(example)))
            #expect(problem == nil, "\(line): \(problem ?? "")")
        }
    }

    @Test func `the commands of the package's units parse`() async throws {
        let folder = GatewayTests.repository.appending(path: "Packaging/debian")
        let units = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        // What the files in /etc/default leave to the administrator.
        let options = ["$FEEDBACK_OPTIONS": ["--environment", "sandbox"], "$PURGE_OPTIONS": ["--exec", "forget"]]
        var count = 0
        for unit in units where unit.pathExtension == "service" {
            for line in try String(contentsOf: unit, encoding: .utf8).split(separator: "\n") {
                guard let match = line.wholeMatch(of: /Exec[A-Za-z]+=\/usr\/bin\/apns-legacy (.*)/) else { continue }
                let words = match.1.split(separator: " ").map(String.init)
                    .flatMap { $0.hasPrefix("$") ? options[$0] ?? [] : [$0] }
                let problem = try await Self.problem(words)
                #expect(problem == nil, "\(unit.lastPathComponent): \(line): \(problem ?? "")")
                count += 1
            }
        }
        #expect(count >= 5)
    }

    @Test func `the program's help groups the commands`() async throws {
        let help = try await CommandRun(["--help"]).output
        for title in ["SEND SUBCOMMANDS:", "DEAD TOKENS SUBCOMMANDS:", "SERVERS SUBCOMMANDS:", "SETUP SUBCOMMANDS:"] {
            #expect(help.contains("\n\(title)\n"), "\(title)")
        }
        #expect(help.contains("\n  send                    Send a batch of notifications"), "\(help)")
        #expect(try await CommandRun([]).output == help)
    }

    @Test func `help shows defaults and values`() async throws {
        let text = try await CommandRun(["send", "--help"]).output
        let help = text.split { $0.isWhitespace }.joined(separator: " ")
        for text in [
            "(values: at-least-once, at-most-once; default: at-least-once)", "(default: 1)", "0, 1 or 2. (default: 1)",
            "(values: text, json; default: text)", "1.2 or 1.3. (default: 1.2)",
        ] { #expect(help.contains(text), "\(text)") }
        let titles = [
            "Exit codes:", "INPUT:", "GATEWAY:", "RESULTS:", "DELIVERY:", "HTTP/2:", "PURGE LIST:", "OUTPUT:",
            "OPTIONS:",
        ]
        let lines = text.split(separator: "\n").map(String.init)
        #expect(lines.filter { $0.hasSuffix(":") && !$0.hasPrefix(" ") && $0 != "Examples:" } == titles)
    }

    @Test func `exit codes are in one table, which is also in the documentation`() async throws {
        let help = try await CommandRun(["help", "exit-codes"])
        #expect(help.code == 0 && help.output == ExitStatus.table && help.error.isEmpty)
        #expect(help.output.split(separator: "\n").allSatisfy { $0.count <= 80 })
        let page = try String(
            contentsOf: GatewayTests.repository.appending(path: "docs/exit-codes.md"),
            encoding: .utf8
        )
        for status in ExitStatus.allCases {
            #expect(help.output.contains("\(status.rawValue)  \(status.meaning)"))
            let row = "| \(status.rawValue) | \(status.meaning) |"
            #expect(page.contains(row), "docs/exit-codes.md has no row \(row)")
        }
    }

    @Test func `the version names the program, its commit and the libraries`() async throws {
        for words in [["--version"], ["send", "--version"]] {
            let version = try await CommandRun(words) { $0.commit = "0123456789ab (modified)" }
            #expect(version.code == 0 && version.error.isEmpty)
            let lines = version.output.split(separator: "\n").map(String.init)
            try #require(lines.count == 5, "\(version)")
            #expect(lines[0] == "apns-legacy \(ApnsLegacyCommand.configuration.version)")
            #expect(lines[1] == "commit 0123456789ab (modified)")
            for (line, name) in zip(lines[2...], ["OpenSSL", "SQLite", "nghttp2"]) {
                #expect(line.wholeMatch(of: /[A-Za-z0-9]+ [0-9]+\.[0-9]+\.[0-9]+[a-z0-9.-]{0,9}/) != nil, "\(line)")
                #expect(line.hasPrefix(name + " "))
            }
        }
    }

    // MARK: Examples

    /// The arguments of a command line, as a shell splits it.
    private static func words(of line: String) -> [String] {
        var words: [String] = []
        for (index, part) in line.split(separator: "\"", omittingEmptySubsequences: false).enumerated() {
            if index % 2 == 1 {
                words.append(String(part))
            } else {
                words += part.split { $0.isWhitespace }.map(String.init)
            }
        }
        return words.map { $0 == "TOKEN" ? SendScene.token(1) : $0 }
    }

    /// The parser's error for a command line; `nil` if there is none.
    private static func problem(_ words: [String]) async throws -> String? {
        do {
            _ = try ApnsLegacyCommand.parseAsRoot(words)
            return nil
        } catch {
            return "\(ApnsLegacyCommand.message(for: error))"
        }
    }
}
