// SPDX-License-Identifier: Apache-2.0

/// A link of a Markdown file to another file, or to a heading.
struct MarkdownLink {
    /// The line, counted from 1.
    let line: Int
    /// The target as written.
    let target: String

    /// The links of a file, except for those to other sites.
    ///
    /// Text in code blocks and between backquotes contains no links.
    static func links(in file: SourceFile) -> [MarkdownLink] {
        var isInBlock = false
        var links: [MarkdownLink] = []
        for (number, line) in file.lines.enumerated() {
            if line.drop(while: { $0 == " " }).hasPrefix("```") { isInBlock.toggle() }
            if isInBlock { continue }
            let text = line.replacing(#/`[^`]*`/#, with: "")
            let targets =
                text.matches(of: #/\]\((?<target>[^)\s]+)\)/#).map(\.target)
                + text.matches(of: #/(?:src|srcset|href)="(?<target>[^"]+)"/#).map(\.target)
            for target in targets where !target.contains(":") {
                links.append(MarkdownLink(line: number + 1, target: String(target)))
            }
        }
        return links
    }

    /// The anchors of a file, as GitHub derives them from its headings.
    static func anchors(of file: SourceFile) -> Set<String> {
        var isInBlock = false
        var anchors: Set<String> = []
        for line in file.lines {
            if line.hasPrefix("```") { isInBlock.toggle() }
            if let name = line.firstMatch(of: #/<a (?:id|name)="(?<name>[^"]+)"/#)?.name { anchors.insert("\(name)") }
            guard !isInBlock, line.hasPrefix("#") else { continue }
            let kept = line.drop { $0 == "#" }.drop { $0 == " " }.lowercased()
                .replacing(#/\]\([^)]*\)/#, with: "")
                .filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
            let anchor = String(kept.map { $0 == " " ? "-" : $0 })
            var (name, count) = (anchor, 0)
            while !anchors.insert(name).inserted {
                count += 1
                name = "\(anchor)-\(count)"
            }
        }
        return anchors
    }

    /// The broken links of files.
    static func findings(
        in documents: [SourceFile],
        paths: Set<String>,
        files: [String: SourceFile]
    ) -> [Finding] {
        var folders: Set<String> = []
        for path in paths {
            var parts = path.split(separator: "/").dropLast()
            while !parts.isEmpty, folders.insert(parts.joined(separator: "/")).inserted { parts.removeLast() }
        }
        let targets = paths.union(folders)
        // Many links lead to the same files.
        var anchors: [String: Set<String>] = [:]
        return documents.flatMap { Self.findings(in: $0, targets, files, &anchors) }
    }

    private static func findings(
        in file: SourceFile,
        _ paths: Set<String>,
        _ files: [String: SourceFile],
        _ anchors: inout [String: Set<String>]
    ) -> [Finding] {
        Self.links(in: file).compactMap { link in
            let parts = link.target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
            var components = file.components.dropLast()
            for part in parts[0].split(separator: "/") {
                switch part {
                case ".": break
                case "..": components = components.dropLast()
                default: components.append(part)
                }
            }
            let path = parts[0].isEmpty ? file.path : components.joined(separator: "/")
            guard paths.contains(path) else {
                return Finding(path: file.path, line: link.line, sentence: "there is no \(path)")
            }
            guard parts.count == 2, let other = files[path] else { return nil }
            let found = anchors[path] ?? Self.anchors(of: other)
            anchors[path] = found
            guard !found.contains(String(parts[1])) else { return nil }
            return Finding(path: file.path, line: link.line, sentence: "\(path) has no heading #\(parts[1])")
        }
    }
}
