// SPDX-License-Identifier: Apache-2.0

/// A text file of the repository.
struct SourceFile: Sendable {
    enum Language {
        case swift
        case c
        case script
        case other
    }

    /// The path from the root of the repository, with slashes.
    let path: String
    let text: String
    let lines: [Substring]

    init(path: String, text: String) {
        self.path = path
        self.text = text
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        self.lines = lines
    }

    /// The parts of the path.
    var components: [Substring] {
        self.path.split(separator: "/")
    }

    var language: Language {
        if self.path.hasSuffix(".swift") { return .swift }
        if self.path.hasSuffix(".c") || self.path.hasSuffix(".h") { return .c }
        if self.text.hasPrefix("#!") || self.components.last == "Makefile" { return .script }
        return .other
    }

    var isCode: Bool {
        self.language != .other
    }
}
