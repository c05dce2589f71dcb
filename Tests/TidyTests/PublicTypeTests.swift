// SPDX-License-Identifier: Apache-2.0

import Testing

/// The public types of one Swift file, found by its lines, which `swift format` has formatted.
enum PublicTypes {
    /// The names of the top-level types.
    static func names(in file: SourceFile) -> [Substring] {
        let head = #/(?:@\w+ )*public (?:final |indirect )?(?:struct|enum|class|actor|protocol|typealias) (\w+).*/#
        return file.lines.compactMap { $0.wholeMatch(of: head)?.1 }
    }

    /// The enumerations with cases that do not declare whether later versions may add cases.
    static func undecidedEnumerations(in file: SourceFile) -> [Finding] {
        let head = #/( *)(?:@\w+ )*public (?:indirect )?enum (\w+).*/#
        return file.lines.indices.compactMap { start in
            guard let found = file.lines[start].wholeMatch(of: head) else { return nil }
            let attributes = file.lines[..<start].reversed().prefix { $0.hasPrefix("\(found.1)@") }
            guard !(attributes + [file.lines[start]]).contains(where: Self.isDecision) else { return nil }
            let body = file.lines[(start + 1)...].prefix { !$0.hasPrefix("\(found.1)}") }
            guard body.contains(where: { $0.hasPrefix("\(found.1)    case ") }) else { return nil }
            return Finding(path: file.path, line: start + 1, sentence: "\(found.2) is neither frozen nor nonexhaustive")
        }
    }

    private static func isDecision(_ line: Substring) -> Bool {
        line.contains("@frozen") || line.contains("@nonexhaustive")
    }
}

/// Goal: a file that imports a product has no ambiguous names, and its author knows which enumerations may grow.
@Suite struct PublicTypeTests {
    /// The files of a target that is in a library product.
    private static func libraryFiles() throws -> [SourceFile] {
        let files = try SourceTree.repository.get().files
        let manifest = try #require(files.first { $0.path == "Package.swift" }).text
        let products = manifest.matches(of: #/\.library\(\s*name: "\w+",\s*targets: \[([^\]]*)\]/#)
        let targets = Set(products.flatMap { $0.1.matches(of: #/\w+/#).map { $0.0 } })
        #expect(targets.count > 10)
        return files.filter {
            $0.language == .swift && $0.components[0] == "Sources" && targets.contains($0.components[1])
        }
    }

    @Test func `no type has the name of a module or of another type`() throws {
        let files = try Self.libraryFiles()
        let modules = Set(
            try SourceTree.repository.get().files.filter { $0.components[0] == "Sources" }.map { $0.components[1] }
        )
        var places: [Substring: String] = [:]
        for file in files {
            for name in PublicTypes.names(in: file) {
                #expect(!modules.contains(name), "\(file.path): \(name) is a module")
                #expect(places[name] == nil, "\(file.path): \(name) is in \(places[name] ?? "") as well")
                places[name] = file.path
            }
        }
        #expect(places.count > 100)
    }

    @Test func `every enumeration declares whether there may be more cases`() throws {
        for finding in try Self.libraryFiles().flatMap(PublicTypes.undecidedEnumerations) { Issue.record("\(finding)") }
    }

    /// The compiler finds missing imports of a snippet; this finds superfluous ones.
    @Test func `one import is enough for each task`() throws {
        let snippets = try SourceTree.repository.get().files.filter {
            $0.language == .swift && $0.components[0] == "Snippets"
        }
        #expect(snippets.count > 5)
        var used: Set<Set<Substring>> = []
        for file in snippets {
            let modules = Set(Self.modules(in: file))
            #expect(
                modules.count == (Self.snippetsOfTwoTasks.contains(file.path) ? 2 : 1),
                "\(file.path) imports \(modules.sorted())"
            )
            used.insert(modules)
        }
        let tasks: [Set<Substring>] = [
            ["APNSProvider"], ["APNSProviderHTTP2"], ["APNSFeedback"], ["APNSGateway"], ["APNSTestKit"], ["APNSWire"],
            ["APNSProvider", "APNSTestKit"],
        ]
        for task in tasks { #expect(used.contains(task), "no snippet shows \(task.sorted())") }
    }

    @Test func `the table of imports lists each type that is not visible through APNSProvider`() throws {
        let files = try SourceTree.repository.get().files
        let text = { (path: String) throws in try #require(files.first { $0.path == path }).text }
        let exported = Set(
            try text("Sources/APNSProvider/Exports.swift").matches(of: #/import \w+ \w+\.(\w+)/#).map { $0.1 }
        )
        let rows = try text("docs/libraries.md").matches(of: #/\| (`.*`) \| `(\w+)` \|/#)
        for module in ["APNSJSON", "APNSPayload", "APNSWire", "APNSSession", "APNSTransport", "OpenSSLTLS"] {
            let declared = files.filter { $0.path.hasPrefix("Sources/\(module)/") && $0.language == .swift }
            let types = Set(declared.flatMap(PublicTypes.names)).subtracting(exported)
            let listed = rows.last { $0.2 == module }?.1.matches(of: #/\w+/#).map { $0.0 } ?? []
            #expect(listed == types.sorted(), "the row of \(module) in docs/libraries.md")
        }
    }

    /// Tests with the tested modules, and sending with feedback.
    private static let snippetsOfTwoTasks = [
        "Snippets/TestWithoutApple.swift", "Snippets/TestYourPushService.swift",
        "Snippets/CallsOfOtherLibraries.swift", "Snippets/EchoOverTLS.swift",
    ]

    /// The modules of this package that a file imports.
    private static func modules(in file: SourceFile) -> [Substring] {
        file.lines.compactMap { $0.wholeMatch(of: #/import (\w+)/#)?.1 }.filter {
            $0.hasPrefix("APNS") || ["OpenSSLTLS", "TokenStore"].contains($0)
        }
    }

    // MARK: Testing the checks

    @Test func `types of the file are found`() {
        let file = SourceFile(
            path: "A.swift",
            text: """
                public struct Notification: Sendable {
                    public struct Data {}
                }
                @safe public final class NSThing {}
                struct Host {}
                public typealias Number = Int
                """
        )
        #expect(PublicTypes.names(in: file) == ["Notification", "NSThing", "Number"])
    }

    @Test func `enumerations without a declaration are found`() {
        let file = SourceFile(
            path: "A.swift",
            text: """
                public enum Limits {
                    static let a = 1
                }
                @frozen
                public enum Frozen {
                    case a
                }
                public struct S {
                    @nonexhaustive
                    @safe public enum Open {
                        case a
                    }
                    public indirect enum Undecided: Hashable {
                        case a
                    }
                }
                """
        )
        let findings = PublicTypes.undecidedEnumerations(in: file)
        #expect(findings.map(\.line) == [13])
    }
}
