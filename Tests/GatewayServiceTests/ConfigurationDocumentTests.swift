// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import ServiceSupport
import Testing

@testable import GatewayService

/// Goal: docs/gateway-configuration.md and the program agree on each key.
@Suite struct ConfigurationDocumentTests {
    private enum Section: String, CaseIterable {
        case root = ""
        case listen
        case limits
        case outcomes
        case webhook = "outcomes.webhook"
        case admin
        case server
        case provider = "providers[]"
        case clients = "providers[].clients"
        case pin = "providers[].clients.pins[]"
        case upstream = "providers[].upstream"
        case providerLimits = "providers[].limits"
        case retry = "providers[].retry"
        case overrides = "providers[].overrides"

        /// The heading in the document.
        var heading: String { self == .root ? "## The file" : "## `\(self.rawValue)`" }
    }

    /// The keys of the program by section.
    private static let program: [Section: [SettingRow]] = {
        func sections(_ path: String, _ rows: [SettingRow]) -> [Section: [SettingRow]] {
            let inner = rows.filter { !$0.rows.isEmpty }.map { row in
                let name = path.isEmpty ? row.key : "\(path).\(row.key)"
                return sections(row.kind == "list" ? name + "[]" : name, row.rows)
            }
            let own = Section(rawValue: path).map { [$0: rows] } ?? [:]
            return inner.reduce(own) { $0.merging($1) { first, _ in first } }
        }
        return sections("", GatewayFile.settings.rows)
    }()

    /// The table of a section as the document has it.
    private static func table(_ rows: [SettingRow]) -> [String] {
        func code(_ text: String) -> String { text.isEmpty ? "" : "`\(text)`" }
        let head = ["| Key | Type | Default | Range | Example | Description |", "|---|---|---|---|---|---|"]
        return head
            + rows.map { row in
                let time = row.kind == "time" ? row.standard.flatMap { DurationText($0.utf8)?.duration } : nil
                let standard = time.map { SettingKind<Duration>.text($0) } ?? row.standard
                let isRequired = row.traits.contains(.required)
                let cells = [
                    code(row.key), row.kind, isRequired ? "required" : standard.map(code) ?? "none", row.range,
                    code(row.example), row.help,
                ]
                return "|" + cells.map { $0.isEmpty ? " |" : " \($0) |" }.joined()
            }
    }

    /// A row of the document.
    private struct Row {
        var section: Section
        var key: String
        var type: String
        var standard: String
        var range: String
        var example: String

        /// The text between backticks, without quotation marks.
        static func code(_ cell: String) -> String? {
            guard cell.hasPrefix("`"), cell.hasSuffix("`") else { return nil }
            return String(cell.dropFirst().dropLast())
        }

        /// The key as in errors.
        var place: String {
            let section = self.section.rawValue.replacing("[]", with: "[0]")
            return section.isEmpty ? self.key : "\(section).\(self.key)"
        }
    }

    private static let document = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/gateway-configuration.md")

    private static func cells(_ line: Substring) -> [String] {
        line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
            .map { $0.trimmingCharacters(in: .whitespaces) }
    }

    private static func rows() throws -> [Row] {
        var section: Section?
        var rows: [Row] = []
        for line in try String(contentsOf: Self.document, encoding: .utf8).split(separator: "\n") {
            if line.hasPrefix("## ") {
                let title = line.dropFirst(3)
                section = title == "The file" ? .root : Row.code(String(title)).flatMap { Section(rawValue: $0) }
            }
            let cells = Self.cells(line)
            guard let section, cells.count == 6, let key = Row.code(cells[0]) else { continue }
            rows.append(
                Row(
                    section: section,
                    key: key,
                    type: cells[1],
                    standard: cells[2],
                    range: cells[3],
                    example: cells[4]
                )
            )
        }
        return rows
    }

    /// A valid configuration with these values.
    private static func yaml(
        _ changes: [(Section, String, String)] = [],
        without missing: (Section, String)? = nil
    ) -> String {
        var fields: [Section: [(String, String)]] = [
            .root: [("feedback", "feedback.sqlite")], .server: [("certificate", "server.pem")],
            .provider: [("name", "shop"), ("environment", "production")], .clients: [("authority", "ca.pem")],
            .upstream: [("certificate", "push.p12")],
        ]
        for (section, key, value) in changes {
            // A key replaces the certificate.
            if section == .upstream, ["p8", "keyID", "teamID"].contains(key) {
                fields[.upstream] = [("p8", "k"), ("keyID", "ABCDEFGHIJ"), ("teamID", "KLMNOPQRST")]
            }
            if section == .pin, key == "allowExpired" {
                fields[.pin] = [("fingerprint", String(repeating: "ab", count: 32))]
            }
            fields[section, default: []].removeAll { $0.0 == key }
            fields[section, default: []].append((key, value))
        }
        if fields[.outcomes] != nil || fields[.webhook] != nil {
            let names = (fields[.outcomes] ?? []).map(\.0)
            if !names.contains("folder") { fields[.outcomes, default: []].append(("folder", "outcomes")) }
            let webhookNames = (fields[.webhook] ?? []).map(\.0)
            if !webhookNames.contains("url") { fields[.webhook, default: []].append(("url", "https://localhost/")) }
        }
        func text(_ section: Section, _ inner: [(String, String)] = []) -> String {
            let own = (fields[section] ?? []).filter { field in !inner.contains { $0.0 == field.0 } }
            let all = (own + inner).filter { field in missing.map { $0 != (section, field.0) } ?? true }
            return "{" + all.map { "\($0): \($1)" }.joined(separator: ", ") + "}"
        }
        let pins = fields[.pin] == nil ? [] : [("pins", "[\(text(.pin))]")]
        let provider = text(
            .provider,
            [
                ("clients", text(.clients, pins)), ("upstream", text(.upstream)), ("limits", text(.providerLimits)),
                ("retry", text(.retry)), ("overrides", text(.overrides)),
            ]
        )
        let outcomes = fields[.outcomes] == nil ? [] : [("outcomes", text(.outcomes, [("webhook", text(.webhook))]))]
        let isOff = fields[.root]?.contains { $0.0 == "admin" } == true
        return text(
            .root,
            [("listen", text(.listen)), ("limits", text(.limits)), ("server", text(.server))] + outcomes
                + (isOff ? [] : [("admin", text(.admin))]) + [("providers", "[\(provider)]")]
        )
    }

    /// Whether a configuration with a value is rejected because of it.
    private static func isRefused(_ row: Row, _ value: String) -> Bool {
        // This bound is less than that of all connections.
        let total = row.key == "unauthenticatedPerAddress" ? [(Section.limits, "connections", "1000000")] : []
        let spooling = row.key == "spool" ? [(Section.provider, "rejections", "ignore")] : []
        do {
            _ = try GatewayFile(yaml: Self.yaml(total + spooling + [(row.section, row.key, value)]))
            return false
        } catch {
            return error.key == row.place
        }
    }

    /// With `UPDATE_DOCUMENTS=1`, it writes the tables.
    @Test func `the tables of the document are those of the program`() throws {
        #expect(Set(Self.program.keys) == Set(Section.allCases))
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        var lines = text.components(separatedBy: "\n")
        for (section, rows) in Self.program {
            let heading = try #require(lines.firstIndex(of: section.heading), "\(section)")
            let start = try #require(lines[heading...].firstIndex { $0.hasPrefix("|") }, "\(section)")
            let end = lines[start...].firstIndex { !$0.hasPrefix("|") } ?? lines.endIndex
            lines.replaceSubrange(start..<end, with: Self.table(rows))
        }
        let expected = lines.joined(separator: "\n")
        if ProcessInfo.processInfo.environment["UPDATE_DOCUMENTS"] != nil, text != expected {
            try Data(expected.utf8).write(to: Self.document)
        } else {
            #expect(text == expected)
        }
    }

    @Test func `the document names exactly the keys that need a restart`() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8).replacing("\n", with: " ")
        let sentence = try #require(text.firstMatch(of: #/Changes of (?<keys>[^.]+) need a restart/#))
        let keys = sentence.keys.matches(of: #/`(\w+)`/#).map { String($0.1) }
        let restarting = GatewayFile.settings.rows.filter { $0.traits.contains(.restart) }
        #expect(Set(keys) == Set(restarting.map(\.key)))
    }

    @Test func `each default of the document is the program's`() throws {
        let pin = (Section.pin, "fingerprint", String(repeating: "ab", count: 32))
        let folder = (Section.outcomes, "folder", "outcomes")
        let yaml = try GatewayFile(yaml: Self.yaml([pin, folder])).yaml(directory: "/")
        let root = try #require(try YAMLNode(yaml: yaml))
        func value(_ row: Row) -> YAMLNode? {
            var node: YAMLNode? = root
            for name in row.section.rawValue.split(separator: ".") {
                let isList = name.hasSuffix("[]")
                node = node?[isList ? String(name.dropLast(2)) : String(name)]
                if isList { node = try? node?.elements.first }
            }
            return node?[row.key]
        }
        for row in try Self.rows() where !["section", "list", "section or `off`"].contains(row.type) {
            let actual = try? value(row)?.text
            if row.standard == "none" {
                // A certificate replaces a key, and the host of the service follows from the environment.
                let isOfOther =
                    row.place.hasSuffix("clients.authority") || row.place.hasSuffix("upstream.certificate")
                    || row.place.hasSuffix("upstream.host")
                #expect(actual == nil || isOfOther, "\(row.place): \(actual ?? "")")
            } else if row.standard != "required" {
                let expected = try #require(Row.code(row.standard), "\(row.place)")
                if row.type == "time" {
                    let duration = try #require(DurationText(expected.utf8)?.duration)
                    #expect(actual.flatMap { DurationText($0.utf8)?.duration } == duration, "\(row.place)")
                } else {
                    #expect(actual == expected, "\(row.place)")
                }
            }
        }
    }

    @Test func `a key that the document requires is required`() throws {
        for row in try Self.rows() where row.standard == "required" {
            let yaml = Self.yaml([(row.section, row.key, "x")], without: (row.section, row.key))
            let fault = #expect(throws: YAMLNode.Problem.self, "\(row.place)") { _ = try GatewayFile(yaml: yaml) }
            #expect(fault?.sentence.contains("missing key: \(row.key)") == true, "\(row.place): \(yaml)")
        }
    }

    @Test func `each range of the document is the program's, and each example is in it`() throws {
        for row in try Self.rows() {
            if let example = Row.code(row.example) {
                #expect(!Self.isRefused(row, example), "\(row.place): \(example)")
            }
            guard !row.range.isEmpty else { continue }
            let bounds = row.range.components(separatedBy: " to ")
            if row.type == "number", bounds.count == 2, let low = Int(bounds[0]), let high = Int(bounds[1]) {
                for value in [low, high] { #expect(!Self.isRefused(row, "\(value)"), "\(row.place): \(value)") }
                for value in [low - 1, high + 1] { #expect(Self.isRefused(row, "\(value)"), "\(row.place): \(value)") }
            } else if row.type == "time", bounds.count == 2 {
                let low = try #require(DurationText(bounds[0].utf8)?.duration)
                let high = try #require(DurationText(bounds[1].utf8)?.duration)
                for value in bounds { #expect(!Self.isRefused(row, value), "\(row.place): \(value)") }
                #expect(Self.isRefused(row, "\(high.components.seconds + 1)s"), "\(row.place)")
                if low > .zero { #expect(Self.isRefused(row, "0s"), "\(row.place)") }
                if low >= .seconds(1) { #expect(Self.isRefused(row, "999ms"), "\(row.place)") }
            } else {
                let words = row.range.components(separatedBy: ", ")
                for word in words { #expect(!Self.isRefused(row, "\"\(word)\""), "\(row.place): \(word)") }
                let fault = #expect(throws: YAMLNode.Problem.self) {
                    _ = try GatewayFile(yaml: Self.yaml([(row.section, row.key, row.type == "number" ? "2" : "other")]))
                }
                #expect(fault?.key == row.place)
                // The error lists the valid values.
                let listed = fault?.sentence.components(separatedBy: ": ").last?.components(separatedBy: ", ")
                if row.type == "one of" { #expect(listed?.sorted() == words.sorted(), "\(row.place)") }
            }
        }
    }

    @Test func `the document has exactly the environment variables of the program`() throws {
        var variables: [String: String] = [:]
        for line in try String(contentsOf: Self.document, encoding: .utf8).split(separator: "\n") {
            let cells = Self.cells(line).compactMap { Row.code($0) }
            if cells.count == 2, cells[0].hasPrefix("APNS_LEGACY_") { variables[cells[0]] = cells[1] }
        }
        #expect(variables == GatewayFile.variables)
    }

    @Test func `a misspelled key is answered with the nearest one`() throws {
        let fault = #expect(throws: YAMLNode.Problem.self) {
            _ = try GatewayFile(yaml: Self.yaml([(.listen, "feedbackprot", "1")]))
        }
        #expect(fault?.key == "listen.feedbackprot")
        #expect(fault?.sentence.contains("did you mean feedbackPort?") == true, "\(fault?.sentence ?? "")")
        let beginning = #expect(throws: YAMLNode.Problem.self) {
            _ = try GatewayFile(yaml: Self.yaml([(.listen, "tlsMin", "1")]))
        }
        #expect(beginning?.sentence.contains("did you mean tlsMinimum?") == true, "\(beginning?.sentence ?? "")")
        let other = #expect(throws: YAMLNode.Problem.self) {
            _ = try GatewayFile(yaml: Self.yaml([(.listen, "somethingelse", "1")]))
        }
        #expect(other?.sentence.contains("did you mean") == false)
    }

    @Test func `the printed configuration is the same configuration`() throws {
        let changes: [[(Section, String, String)]] = [
            [],
            [
                (.root, "admin", "off"), (.listen, "tlsMinimum", "\"1.0\""), (.listen, "ciphers", "\"A:@SECLEVEL=0\""),
                (.limits, "drainIdle", "1500ms"), (.limits, "unauthenticatedPerAddress", "3"),
                (.provider, "rejections", "ignore"), (.provider, "rejectedToFeedback", "true"),
                (.provider, "name", "\"it's: \\\"#\\\" 7\""), (.clients, "revocations", "crl.pem"),
                (.pin, "allowExpired", "true"), (.upstream, "teamID", "\"0123456789\""),
                (.overrides, "pushType", "none"),
                (.overrides, "lifetime", "30d"), (.overrides, "relativeExpiry", "1h"), (.overrides, "priority", "5"),
                (.retry, "atMostOnce", "true"), (.outcomes, "tokens", "plain"), (.webhook, "batch", "7"),
            ],
        ]
        for changes in changes {
            let file = try GatewayFile(
                yaml: Self.yaml(changes),
                folder: "folder/",
                environment: ["APNS_LEGACY_LISTEN_PORT": "77"]
            )
            let printed = file.yaml(directory: "/here")
            let read = try GatewayFile(yaml: printed)
            #expect(read.yaml(directory: "/there") == printed)
            #expect(printed.contains("/here/folder/server.pem") && printed.contains("port: 77"))
            var expected = try GatewayFile(
                yaml: Self.yaml(changes),
                folder: "/here/folder/",
                environment: ["APNS_LEGACY_LISTEN_PORT": "77"]
            )
            // Derived from the environment, and printed.
            expected.providers[0].service.host = read.providers[0].service.host
            #expect(read == expected)
        }
    }
}
