// SPDX-License-Identifier: Apache-2.0

import Testing

/// One violation of a rule.
struct Finding: Hashable, CustomStringConvertible {
    let path: String
    /// The line, counted from 1; `nil` if the rule is about the whole file or its path.
    var line: Int?
    let sentence: String

    var description: String { "\(self.path)\(self.line.map { ":\($0)" } ?? ""): \(self.sentence)" }
}

/// A rule that every file must follow.
///
/// Rules look at lines. `swift format` and the compiler check what requires a parser; the compiler also checks that a
/// target imports exactly the modules that its manifest declares (`Scripts/test`).
enum Rule: String, CaseIterable, CustomTestStringConvertible {
    case fileLength
    case functionLength
    case lineLength
    case license
    case bannedImports
    case lateImports
    case bannedWords
    case bannedNames
    case spaces

    static let fileLineCountMax = 1000
    static let functionLineCountMax = 70
    static let lineColumnCountMax = 120

    /// Modules that no file may import: there is one TLS implementation and one test library.
    static let bannedModules: Set<Substring> = ["NIOSSL", "XCTest"]

    /// Targets that may import Foundation; it is large, so the others do not.
    static let targetsWithFoundation: Set<Substring> = ["APNSLegacyCommands", "SimulatorService", "TokenStore"]

    var testDescription: String { self.rawValue }

    func findings(in file: SourceFile) -> [Finding] {
        switch self {
        case .fileLength: self.fileLength(file)
        case .functionLength: self.functionLength(file)
        case .lineLength: self.lineLength(file)
        case .license: self.license(file)
        case .bannedImports: self.bannedImports(file)
        case .lateImports: self.lateImports(file)
        case .bannedWords: self.bannedWords(file)
        case .bannedNames: self.bannedNames(file)
        case .spaces: self.spaces(file)
        }
    }

    private func fileLength(_ file: SourceFile) -> [Finding] {
        guard file.isCode, file.lines.count > Self.fileLineCountMax else { return [] }
        return [Finding(path: file.path, sentence: "\(file.lines.count) lines, at most \(Self.fileLineCountMax)")]
    }

    /// Whether a line begins with a word, and ends as one that starts a body; the regular expression is slower.
    private static func mayBeginFunction(_ line: Substring) -> Bool {
        guard let first = line.utf8.first(where: { $0 != UInt8(ascii: " ") }), let last = line.utf8.last else {
            return false
        }
        return (first == UInt8(ascii: "@") || first >= UInt8(ascii: "a")) && "{(<)".utf8.contains(last)
    }

    /// A function ends at the first line that starts with a brace and is not indented further than its first line,
    /// since `swift format` has formatted every file.
    private func functionLength(_ file: SourceFile) -> [Finding] {
        guard file.language == .swift else { return [] }
        let head = #/ *(?:@?\w+(?:\(\w+\))? )*(?:func |init[?(<]|deinit \{|subscript[(<]).*/#
        return file.lines.indices.compactMap { start in
            let line = file.lines[start]
            guard Self.mayBeginFunction(line), line.wholeMatch(of: head) != nil else { return nil }
            let indentation = line.prefix { $0 == " " }.count
            let end = file.lines[(start + 1)...].firstIndex {
                guard let first = $0.first(where: { $0 != " " }), !")-{#".contains(first) else { return false }
                return $0.prefix { $0 == " " }.count <= indentation
            }
            guard let end, file.lines[end].drop(while: { $0 == " " }).hasPrefix("}") else { return nil }
            let count = end - start + 1
            guard count > Self.functionLineCountMax else { return nil }
            let sentence = "a function of \(count) lines, at most \(Self.functionLineCountMax)"
            return Finding(path: file.path, line: start + 1, sentence: sentence)
        }
    }

    private func lineLength(_ file: SourceFile) -> [Finding] {
        guard file.isCode else { return [] }
        // A line has no more columns than bytes, which are faster to count.
        let long = file.lines.enumerated().filter { _, line in
            line.utf8.count > Self.lineColumnCountMax && line.count > Self.lineColumnCountMax
        }
        return long.map {
            let sentence = "\($0.element.count) columns, at most \(Self.lineColumnCountMax)"
            return Finding(path: file.path, line: $0.offset + 1, sentence: sentence)
        }
    }

    /// The license comes first, after only those lines that tools require to be first.
    private func license(_ file: SourceFile) -> [Finding] {
        guard file.isCode else { return [] }
        let first = file.lines.first { !$0.hasPrefix("#!") && !$0.hasPrefix("// swift-tools-version:") }
        if first == "// SPDX-License-Identifier: Apache-2.0" || first == "# SPDX-License-Identifier: Apache-2.0" {
            return []
        }
        return [Finding(path: file.path, line: 1, sentence: "does not begin with the SPDX line")]
    }

    private func bannedImports(_ file: SourceFile) -> [Finding] {
        guard file.language == .swift else { return [] }
        let isInSources = file.components.first == "Sources" && file.components.count > 2
        let isWithout = isInSources && !Self.targetsWithFoundation.contains(file.components[1])
        let statement = #/(?:@?\w+ )*import (?:[a-z]+ )?(\w+)(?:\..*)?/#
        return file.lines.enumerated().compactMap { number, line in
            guard let first = line.first, "@fip".contains(first), let found = line.wholeMatch(of: statement) else {
                return nil
            }
            let module = found.1
            guard Self.bannedModules.contains(module) || isWithout && module.hasPrefix("Foundation") else { return nil }
            return Finding(path: file.path, line: number + 1, sentence: "\(module) may not be imported here")
        }
    }

    /// Imports are before the code of a file, and of each branch of a condition: behind it, a module of a trait can be
    /// in the branch without that trait, which few builds compile.
    private func lateImports(_ file: SourceFile) -> [Finding] {
        guard file.language == .swift, file.components.first != "Snippets" else { return [] }
        var isBehindCode = false
        return file.lines.enumerated().compactMap { number, line in
            if line.hasPrefix("#") { isBehindCode = false }
            guard let first = line.first, first.isLetter || first == "@" else { return nil }
            guard line.contains(#/^(?:@?\w+(?:\(\w+\))? )*import \w/#) else {
                isBehindCode = true
                return nil
            }
            guard isBehindCode else { return nil }
            return Finding(path: file.path, line: number + 1, sentence: "an import behind code")
        }
    }

    private static let wordBytes = Set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_".utf8
    )

    /// Words and calls that are not allowed in a folder.
    private func bannedWords(_ file: SourceFile) -> [Finding] {
        let banned: [String]
        switch file.components.first {
        case "Sources":
            // The command configures libraries: it passes them a logger and metrics.
            let isCommand = file.components[1] == "APNSLegacyCommands"
            let isMain = file.components[1] == "apns-legacy"
            banned =
                ["TODO", "FIXME", "XXX", "fatalError("] + (isCommand ? [] : ["Logger(label:"])
                + (isMain ? [] : ["MetricsSystem.bootstrap"])
        // Tests wait for an event, or with `eventually`. The samples of this rule are not pauses.
        case "Tests" where file.language == .swift && file.components[1] != "TidyTests":
            banned = [".sleep(", "usleep(", ".asyncAfter("]
        default: return []
        }
        let words = Set(file.text.utf8.split { !Self.wordBytes.contains($0) && $0 < 0x80 }.map { Substring($0) })
        let found = banned.filter { $0.allSatisfy(\.isLetter) ? words.contains($0[...]) : file.text.contains($0) }
        return found.flatMap { text in
            file.lines.indices.filter { file.lines[$0].contains(text) }.map {
                Finding(path: file.path, line: $0 + 1, sentence: "\(text) has no place in \(file.components[0])")
            }
        }
    }

    private func bannedNames(_ file: SourceFile) -> [Finding] {
        file.components.filter { component in
            let stem = component.prefix { $0 != "." }
            return ["Util", "Utils", "Helper", "Helpers"].contains { stem.hasSuffix($0) }
                || ["Common", "New", "Misc"].contains(stem)
        }.map { Finding(path: file.path, sentence: "\($0) names nothing of the project's") }
    }

    private func spaces(_ file: SourceFile) -> [Finding] {
        guard file.path.contains(where: \.isWhitespace) else { return [] }
        return [Finding(path: file.path, sentence: "a space in the path")]
    }
}
