// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: the repository keeps the rules of CONTRIBUTING.md.
///
/// Method: read every file of it.
@Suite(.timeLimit(.minutes(2)))
struct RepositoryTests {
    struct Exception: Hashable {
        let rule: Rule
        let path: String
        let reason: String
    }

    /// Files that a rule does not hold for, each with its reason.
    static let exceptions: [Exception] = []

    @Test(arguments: Rule.allCases)
    func `every file keeps the rule`(_ rule: Rule) throws {
        let excepted = Set(Self.exceptions.filter { $0.rule == rule }.map(\.path))
        let findings = try SourceTree.repository.get().files.flatMap(rule.findings)
        for finding in findings where !excepted.contains(finding.path) {
            Issue.record("\(finding)")
        }
        for path in excepted where !findings.contains(where: { $0.path == path }) {
            Issue.record("\(path) keeps the rule and needs no exception")
        }
    }

    @Test func `no build product is tracked`() throws {
        guard let tracked = try SourceTree.repository.get().trackedPaths() else { return }
        #expect(BuildProducts.findings(tracked: tracked) == [])
    }

    @Test func `every Swift file belongs to a target and every target has files`() throws {
        let tree = try SourceTree.repository.get()
        let manifest = try #require(tree.files.first { $0.path == "Package.swift" })
        #expect(PackageManifest(manifest.text).findings(paths: tree.paths) == [])
    }

    @Test func `golden vectors are unique and have their lengths`() throws {
        for file in try SourceTree.repository.get().files where file.components.last == "vectors.json" {
            #expect(try VectorFile(path: file.path, json: file.text).findings == [])
        }
    }

    @Test func `the walk finds this file and leaves builds out`() throws {
        let paths = try SourceTree.repository.get().paths
        #expect(paths.contains("Tests/TidyTests/RepositoryTests.swift"))
        #expect(paths.contains("LICENSE"))
        #expect(!paths.contains { $0.hasPrefix(".build") || $0.hasPrefix(".git/") })
    }
}
