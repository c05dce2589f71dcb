// SPDX-License-Identifier: Apache-2.0

import Testing

/// What every file is held to, one at a time.
enum Rule: String, CaseIterable, CustomTestStringConvertible {
    case fileLength
    case functionLength
    case lineLength
    case license
    case imports
    case bannedWords
    case bannedNames
    case spaces

    static let fileLineCountMax = 700
    static let functionLineCountMax = 70
    static let lineColumnCountMax = 120

    var testDescription: String { self.rawValue }

    func findings(in file: SourceFile) -> [Finding] {
        switch self {
        case .fileLength: self.fileLength(file)
        case .functionLength: self.functionLength(file)
        case .lineLength: self.lineLength(file)
        case .license: self.license(file)
        case .imports: ImportRule.findings(in: file)
        case .bannedWords: self.bannedWords(file)
        case .bannedNames: self.bannedNames(file)
        case .spaces: self.spaces(file)
        }
    }

    private func fileLength(_ file: SourceFile) -> [Finding] {
        guard file.isCode, file.lines.count > Self.fileLineCountMax else { return [] }
        let sentence = "\(file.lines.count) lines, at most \(Self.fileLineCountMax)"
        return [Finding(path: file.path, line: nil, sentence: sentence)]
    }

    private func functionLength(_ file: SourceFile) -> [Finding] {
        FunctionScan(file).functions.filter { $0.lineCount > Self.functionLineCountMax }.map {
            let sentence = "a function of \($0.lineCount) lines, at most \(Self.functionLineCountMax)"
            return Finding(path: file.path, line: $0.line, sentence: sentence)
        }
    }

    private func lineLength(_ file: SourceFile) -> [Finding] {
        guard file.isCode else { return [] }
        return file.lines.enumerated().filter { $0.element.count > Self.lineColumnCountMax }.map {
            let sentence = "\($0.element.count) columns, at most \(Self.lineColumnCountMax)"
            return Finding(path: file.path, line: $0.offset + 1, sentence: sentence)
        }
    }

    /// The licence stands first, behind only what a tool wants to be first.
    private func license(_ file: SourceFile) -> [Finding] {
        guard file.isCode else { return [] }
        let first = file.lines.first { !$0.hasPrefix("#!") && !$0.hasPrefix("// swift-tools-version:") }
        if first == "// SPDX-License-Identifier: Apache-2.0" || first == "# SPDX-License-Identifier: Apache-2.0" {
            return []
        }
        return [Finding(path: file.path, line: 1, sentence: "does not begin with the SPDX line")]
    }

    private func bannedWords(_ file: SourceFile) -> [Finding] {
        guard file.components.first == "Sources" else { return [] }
        return file.lines.enumerated().flatMap { number, line in
            let words = Set(line.split { !$0.isLetter && !$0.isNumber && $0 != "_" })
            let marks = ["TODO", "FIXME", "XXX"].filter { words.contains($0[...]) }
            let traps = ["fatalError(", "try!"].filter { line.contains($0) }
            return (marks + traps).map {
                Finding(path: file.path, line: number + 1, sentence: "\($0) has no place in Sources")
            }
        }
    }

    private func bannedNames(_ file: SourceFile) -> [Finding] {
        file.components.filter { component in
            let stem = component.prefix { $0 != "." }
            return ["Util", "Utils", "Helper", "Helpers"].contains { stem.hasSuffix($0) }
                || ["Common", "New", "Misc"].contains(stem)
        }.map { Finding(path: file.path, line: nil, sentence: "\($0) names nothing of the project's") }
    }

    private func spaces(_ file: SourceFile) -> [Finding] {
        guard file.path.contains(where: \.isWhitespace) else { return [] }
        return [Finding(path: file.path, line: nil, sentence: "a space in the path")]
    }
}
