// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: the repository follows the rules of CONTRIBUTING.md.
///
/// Method: check every file.
@Suite(.timeLimit(.minutes(2)))
struct RepositoryTests {
    struct Exception: Hashable {
        let rule: Rule
        let path: String
        let reason: String
    }

    /// Files that are exempt from a rule, each with the reason.
    static let exceptions = [
        Exception(rule: .bannedWords, path: "Tests/TestSupport/Eventually.swift", reason: "the one wait of the tests"),
        Exception(
            rule: .bannedWords,
            path: "Tests/APNSTestingTests/ManualClockTests.swift",
            reason: "a sleep on a clock that the test advances"
        ),
        Exception(rule: .bannedWords, path: "Tests/Simulation/Simulation/Run.swift", reason: "simulated time"),
    ]

    @Test(arguments: Rule.allCases)
    func `every file follows the rule`(_ rule: Rule) throws {
        let excepted = Set(Self.exceptions.filter { $0.rule == rule }.map(\.path))
        let findings = try SourceTree.repository.get().files.flatMap(rule.findings)
        for finding in findings where !excepted.contains(finding.path) {
            Issue.record("\(finding)")
        }
        for path in excepted where !findings.contains(where: { $0.path == path }) {
            Issue.record("\(path) keeps the rule and needs no exception")
        }
    }

    @Test func `every folder of Sources and Tests with Swift files is a target`() throws {
        let files = try SourceTree.repository.get().files
        let manifest = try #require(files.first { $0.path == "Package.swift" }).text
        let folders = files.filter { $0.language == .swift }.map(\.components)
            .filter { ["Sources", "Tests"].contains($0[0]) }.map { $0[1] }
        for folder in Set(folders) { #expect(manifest.contains("name: \"\(folder)\""), "\(folder) is not built") }
    }

    @Test func `every target of Sources marks its unsafe code`() throws {
        let files = try SourceTree.repository.get().files
        let manifest = try #require(files.first { $0.path == "Package.swift" }).text
        let targets = try #require(manifest.firstRange(of: "\n    targets: ["))
        let folders = Set(
            files.filter { $0.language == .swift && $0.components[0] == "Sources" }.map { $0.components[1] }
        )
        #expect(folders.count > 10)
        for folder in folders {
            let target = try #require(manifest[targets.upperBound...].firstRange(of: "name: \"\(folder)\""))
            let settings = try #require(manifest[target.upperBound...].firstRange(of: "swiftSettings: "))
            #expect(manifest[settings.upperBound...].hasPrefix("strict"), "\(folder) allows unsafe code unmarked")
        }
    }

    /// `Scripts/weight` builds such a package; this finds omissions earlier.
    @Test func `without traits, only the packages that sending needs are fetched`() throws {
        let files = try SourceTree.repository.get().files
        let manifest = try #require(files.first { $0.path == "Package.swift" }).text
        let product = #/\.product\(name: "\w+", package: "(?<package>[^"]+)"(?<condition>, condition: \w+)?\)/#
        let uses = manifest.matches(of: product)
        #expect(uses.count == manifest.matches(of: #/\.product\(/#).count)
        let unconditional = Set(uses.filter { $0.condition == nil }.map { String($0.package) })
        #expect(
            unconditional == [
                "swift-collections", "swift-log", "swift-metrics", "swift-nio", "swift-system",
            ]
        )
    }

    @Test func `the list of files contains this file and no build products`() throws {
        let paths = try SourceTree.repository.get().paths
        #expect(paths.contains("Tests/TidyTests/RepositoryTests.swift"))
        #expect(paths.contains("LICENSE"))
        #expect(!paths.contains { $0.hasPrefix(".build") || $0.hasPrefix(".git/") })
    }
}
