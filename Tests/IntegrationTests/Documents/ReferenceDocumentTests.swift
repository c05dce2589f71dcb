// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSWire
import ArgumentParser
import Foundation
import Testing

/// Goal: the lists in docs/ are complete, and contain nothing else.
struct ReferenceDocumentTests {
    private static func rows(of document: String, under heading: String) throws -> [[String]] {
        let file = GatewayTests.repository.appending(path: "docs/\(document)")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        let start = try #require(lines.firstIndex { $0 == heading })
        let section = lines[(start + 1)...].prefix { !$0.hasPrefix("## ") }
        let rows = section.filter { $0.hasPrefix("| ") }.map { line in
            line.split(separator: "|").map(\.trimmingSpaces)
        }
        return Array(rows.dropFirst())
    }

    @Test func `exit-codes.md has each exit code`() throws {
        let codes = try Self.rows(of: "exit-codes.md", under: "# Exit codes").map { Int32($0[0]) }
        #expect(codes == (0...255).filter { ExitStatus(rawValue: $0) != nil })
    }

    @Test func `exit-codes.md has the exit codes of each command`() async throws {
        var documented: [[String]: String] = [:]
        for row in try Self.rows(of: "exit-codes.md", under: "## By command") {
            for name in row[0].matches(of: /`([a-z ]+)`/) {
                let words = name.1.split(separator: " ").map(String.init)
                #expect(documented.updateValue(row[1], forKey: words) == nil, "\(words)")
            }
        }
        var known: [[String]: String] = [:]
        for words in Self.commands(of: ApnsLegacyCommand.self) {
            let lines = try await CommandRun(words + ["--help"]).output.split(separator: "\n")
            let codes = lines.drop { $0 != "Exit codes:" }.compactMap { $0.wholeMatch(of: #/  ([0-9]+) .*/#)?.1 }
            known[words] = codes.joined(separator: ", ")
        }
        for words in Set(known.keys).union(documented.keys) {
            #expect(documented[words] == known[words], "\(words)")
        }
    }

    /// The names of the commands without subcommands.
    private static func commands(of command: any ParsableCommand.Type, _ words: [String] = []) -> [[String]] {
        let inner = command.configuration.subcommands
        guard !inner.isEmpty else { return [words] }
        return inner.flatMap { Self.commands(of: $0, words + [$0.configuration.commandName ?? ""]) }
    }

    @Test func `the script in exit-codes.md repeats a command for the same exit codes as the help`() throws {
        let file = GatewayTests.repository.appending(path: "docs/exit-codes.md")
        let codes = ExitStatus.allCases.filter(\.isTemporary).map { "\($0.rawValue)" }.joined(separator: " | ")
        let text = try String(contentsOf: file, encoding: .utf8)
        #expect(text.contains("    \(codes)) echo \"try again later\" ;;\n"))
    }

    @Test func `status-codes.md has each status by its name`() throws {
        let rows = try Self.rows(of: "status-codes.md", under: "## Binary statuses")
        let names = try rows.map { "\(try #require(UInt8($0[0]))) (\($0[1]))" }
        let known = (UInt8.min...UInt8.max).map { "\(ErrorResponse.Status(rawValue: $0))" }
        #expect(names == known.filter { !$0.contains("undocumented") })
    }

    @Test func `status-codes.md has each reason with its status`() throws {
        let rows = try Self.rows(of: "status-codes.md", under: "## HTTP/2 reasons").map { $0[0] }
        #expect(rows.count == Set(rows).count)
        #expect(Set(rows) == Set(PushReason.allDocumented.map { "\($0.status ?? 0) \($0.text)" }))
    }

    /// The names of tests and scripts in a text.
    private static func tests(in text: String) -> [String] {
        text.matches(of: #/`(\w+Tests|Scripts/[\w-]+)`/#).map { String($0.1) }
    }

    @Test func `each promise of guarantees.md names tests that exist, and has its attacks in reliability.md`() throws {
        let promises = try Self.rows(of: "guarantees.md", under: "# Guarantees")
        let attacks = try Self.rows(of: "reliability.md", under: "## The promises and what attacks them")
        #expect(promises.count > 10 && promises.map { $0[0] } == attacks.map { $0[0] })
        let repository = GatewayTests.repository
        let tests = repository.appending(path: "Tests")
        let paths = FileManager.default.enumerator(atPath: tests.path)?.compactMap { $0 as? String } ?? []
        let files = Set(paths.map { URL(filePath: $0).lastPathComponent })
        for row in promises + attacks {
            let names = Self.tests(in: row[2])
            #expect(!names.isEmpty, "\(row[0])")
            for name in names {
                let isScript = FileManager.default.isExecutableFile(atPath: repository.appending(path: name).path)
                #expect(isScript || files.contains("\(name).swift") || paths.contains(name), "\(name)")
            }
        }
    }

    private struct WrongRule: Decodable {
        let promise, rule, file, from: String
    }

    @Test func `each wrong rule fits the sources, and has its row in reliability.md`() throws {
        let repository = GatewayTests.repository
        let file = repository.appending(path: "Tests/Simulation/wrong-rules.json")
        let rules = try JSONDecoder().decode([WrongRule].self, from: Data(contentsOf: file))
        #expect(rules.count > 30)
        for rule in rules {
            let source = try String(contentsOf: repository.appending(path: rule.file), encoding: .utf8)
            #expect(source.ranges(of: rule.from).count == 1, "\(rule.file): \(rule.rule)")
        }
        let shown = try Self.rows(of: "reliability.md", under: "## Simulation").map { $0[1] }
        for rule in rules where rule.promise != "earlier trials" { #expect(shown.contains(rule.rule), "\(rule.rule)") }
    }

    @Test func `the table of fuzz targets in reliability.md has the kept inputs and the sums`() throws {
        func number(_ text: String) throws -> Int { try #require(Int(text.filter(\.isNumber)), "\(text)") }
        // The columns: target, CPU time, inputs run, inputs kept, line coverage, findings.
        let rows = try Self.rows(of: "reliability.md", under: "## Random input").filter { $0.count == 6 }
        let sums = try #require(rows.first { $0[0] == "all" })
        let targets = rows.filter { $0[1].hasSuffix(" min") && $0[0] != "all" }
        #expect(targets.count > 20)
        for row in targets {
            let name = row[0].filter { $0 != "`" }
            let file = GatewayTests.repository.appending(path: "Tests/Fuzz/corpora/\(name).base64")
            let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            #expect(try number(row[3]) == lines.count, "\(name)")
        }
        for column in [2, 3] {
            let sum = try targets.reduce(0) { try $0 + number($1[column]) }
            #expect(try number(sums[column]) == sum, "column \(column)")
        }
        let findings = try targets.filter { $0[5] != "none" }.reduce(0) { try $0 + number($1[5]) }
        let minutes = targets.compactMap { Double($0[1].dropLast(4)) }
        #expect(try number(sums[5]) == findings && minutes.count == targets.count)
        #expect(try number(sums[1]) == Int(minutes.reduce(0, +).rounded()))
    }
}
