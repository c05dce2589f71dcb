// SPDX-License-Identifier: Apache-2.0

package import Foundation

/// The metrics in the tables of docs/monitoring.md.
package struct DocumentedMetrics {
    /// The folder of this package.
    package static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The types of the gateway's metrics, by name.
    package let gateway: [String: String]
    /// The types of the metrics that jobs write to files, by name.
    package let jobs: [String: String]
    /// Those of them that only `queue status` writes.
    package let queue: [String: String]

    /// Reads the document.
    package init() throws {
        let text = try Self.text("monitoring.md")
        self.gateway = Self.table(in: text, under: "## Metrics of the gateway")
        self.jobs = Self.table(in: text, under: "## Metrics of jobs")
        self.queue = self.jobs.filter { $0.key.hasPrefix("apns_legacy_queue_") }
    }

    /// A file of docs.
    package static func text(_ name: String) throws -> String {
        try String(contentsOf: Self.repository.appending(path: "docs/\(name)"), encoding: .utf8)
    }

    private static func table(in text: String, under title: String) -> [String: String] {
        guard let start = text.firstRange(of: title)?.upperBound else { return [:] }
        let end = text[start...].firstRange(of: "\n## ")?.lowerBound ?? text.endIndex
        let rows = text[start..<end].matches(of: #/\n\| `(?<name>\w+)` \| (?<kind>counter|gauge|histogram) \|/#)
        return Dictionary(rows.map { (String($0.name), String($0.kind)) }) { first, _ in first }
    }

    /// The types in the text format, by name.
    package static func kinds(_ text: String) -> [String: String] {
        let lines = text.matches(of: #/# TYPE (?<name>\w+) (?<kind>\w+)/#)
        return Dictionary(lines.map { (String($0.name), String($0.kind)) }) { first, _ in first }
    }

    /// The names in expressions; those of histograms without suffixes.
    package func names(in expressions: String) -> Set<String> {
        let found = expressions.matches(of: #/\b(?:apns_legacy|process)_[a-z0-9_]+/#).map { String($0.output) }
        return Set(
            found.map { name in
                let stem = name.replacing(#/_(bucket|sum|count)$/#, with: "")
                return self.gateway[stem] == "histogram" ? stem : name
            }
        )
    }
}
