// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: each mistake in the table of docs/troubleshooting.md gets the line and the exit code that the table shows.
///
/// Method: the program runs as a process of its own, with real servers and with files that the test makes. With
/// UPDATE_DOCUMENTS=1 in the environment, the test writes the table from what the program prints.
@Suite(.serialized, .timeLimit(.minutes(5))) struct MistakeTests {
    /// One mistake: the command line of the table, and what listens while it runs.
    struct Mistake: Sendable, CustomTestStringConvertible {
        let title: String
        let line: String
        let server: MistakeServer

        init(_ title: String, _ line: String, _ server: MistakeServer = .none) {
            self.title = title
            self.line = line
            self.server = server
        }

        var testDescription: String { self.title }

        /// Whether the options of a connection that works are added.
        var isConnecting: Bool { self.line.contains("{to}") }

        /// The command line that is run.
        var command: String {
            self.line.replacing("{to}", with: "--host localhost --port {port} \(Self.identity)")
                .replacing("{id}", with: Self.identity)
        }

        private static let identity = "--certificate provider.pem --trust ca.pem"

        /// The command line as the table shows it.
        var shown: String {
            "apns-legacy "
                + self.line.replacing("{to}", with: "--host localhost ...").replacing("{id}", with: "...")
                .replacing("{port}", with: "2195").replacing(" --give-up-after 1", with: "")
        }
    }

    @Test func `the table has each mistake once, and no other`() throws {
        let titles = Self.mistakes.map(\.title)
        #expect(Set(titles).count == titles.count && titles.count >= 40)
        guard !MistakeTable.isUpdating else { return }
        let rows = try MistakeTable.rows()
        #expect(rows.map(\.title) == titles)
        #expect(rows.map(\.command) == Self.mistakes.map(\.shown))
    }

    @Test(arguments: MistakeTests.mistakes)
    func `a mistake gets its line`(mistake: Mistake) async throws {
        let scene = try MistakeScene()
        let (code, lines) = try await mistake.server.withPort(scene) { port in
            try await scene.run(mistake.command, port: port)
        }
        let causes = lines.filter { $0.hasPrefix("apns-legacy") }
        #expect(causes.count == 1, "\(lines)")
        let line = try #require(causes.first ?? lines.first)
        if MistakeTable.isUpdating { return try MistakeTable.set(mistake.title, mistake.shown, line, code ?? -1) }
        let row = try #require(try MistakeTable.rows().first { $0.title == mistake.title })
        #expect(line == row.line)
        #expect(code == row.code, "\(lines)")
        let cause = line.drop { $0 != ":" }.dropFirst(2)
        #expect(lines.count { $0.contains(cause) } == 1, "\(lines)")
        #expect(!lines.contains { $0.lowercased().contains("peer") || $0.contains(" NIO") }, "\(lines)")
    }
}

/// The table of docs/troubleshooting.md.
enum MistakeTable {
    struct Row: Equatable {
        var title: String
        var command: String
        var line: String
        var code: Int32
    }

    static let isUpdating = ProcessInfo.processInfo.environment["UPDATE_DOCUMENTS"] == "1"
    /// Stands for a bar within a cell.
    private static let bar = "\u{1}"
    private static let heading = "## Common mistakes"

    private static var file: URL {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/troubleshooting.md")
    }

    private static func text() throws -> [String] {
        try String(contentsOf: Self.file, encoding: .utf8).components(separatedBy: "\n")
    }

    /// The lines of the table in the document, without its head.
    private static func range(_ lines: [String]) throws -> Range<Int> {
        let start = try #require(lines.firstIndex(of: Self.heading))
        let head = try #require(lines[start...].firstIndex { $0.hasPrefix("| ---") }) + 1
        let end = lines[head...].firstIndex { !$0.hasPrefix("|") } ?? lines.count
        return head..<end
    }

    static func rows() throws -> [Row] {
        let lines = try Self.text()
        return try lines[Self.range(lines)].map { line in
            let cells = line.replacing("\\|", with: Self.bar).split(separator: "|").map {
                $0.trimmingCharacters(in: .whitespaces).replacing(Self.bar, with: "|")
            }
            try #require(cells.count == 3, "\(line)")
            let mistake = cells[0].components(separatedBy: "<br>")
            try #require(mistake.count == 2, "\(line)")
            return Row(
                title: mistake[0],
                command: Self.code(mistake[1]),
                line: Self.code(cells[1]),
                code: try #require(Int32(cells[2]))
            )
        }
    }

    private static func code(_ cell: String) -> String {
        cell.trimmingCharacters(in: CharacterSet(charactersIn: "`"))
    }

    /// Writes a row, and keeps the rows in the order of the mistakes.
    static func set(_ title: String, _ command: String, _ line: String, _ code: Int32) throws {
        var lines = try Self.text()
        let range = try Self.range(lines)
        let cells = ["\(title)<br>`\(command)`", "`\(line)`", "\(code)"].map { $0.replacing("|", with: "\\|") }
        var rows = Array(lines[range])
        rows.removeAll { $0.hasPrefix("| \(title)<br>") }
        rows.append("| \(cells.joined(separator: " | ")) |")
        let ordered = MistakeTests.mistakes.compactMap { mistake in
            rows.first { $0.hasPrefix("| \(mistake.title)<br>") }
        }
        lines.replaceSubrange(range, with: ordered)
        try lines.joined(separator: "\n").write(to: Self.file, atomically: true, encoding: .utf8)
    }
}
