// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: the checks of the package as a whole catch what they are for.
///
/// Method: a sample that breaks each.
struct PackageRuleTests {
    private let manifest = PackageManifest(
        """
        .library(name: "A", targets: ["A"]),
        .target(
            name: "A", dependencies: ["B", .product(name: "NIOCore", package: "swift-nio")]),
        .systemLibrary(name: "C", pkgConfig: "openssl"),
        .testTarget(name: "ATests", dependencies: ["A"]),
        """
    )
    private let complete = ["Sources/A/X.swift", "Sources/C/shim.h", "Tests/ATests/XTests.swift", "Package.swift"]

    @Test func `the targets of a manifest are read from its text`() {
        #expect(
            self.manifest.targets == [
                .init(kind: "target", name: "A"), .init(kind: "systemLibrary", name: "C"),
                .init(kind: "testTarget", name: "ATests"),
            ]
        )
        #expect(self.manifest.findings(paths: self.complete) == [])
    }

    @Test(arguments: ["Sources/B/X.swift", "Sources/X.swift", "Tests/BTests/X.swift"])
    func `a Swift file of no target is found`(_ path: String) {
        #expect(self.manifest.findings(paths: self.complete + [path]).map(\.path) == [path])
    }

    @Test func `a target without a file is found`() {
        #expect(self.manifest.findings(paths: Array(self.complete.dropFirst())).map(\.path) == ["Package.swift"])
    }

    @Test(arguments: [
        ".build/debug.yaml", ".build-tsan/x", "Benchmarks/.build/x", "Package.resolved", "Fuzz/Package.resolved",
        "Scripts/__pycache__/bench.pyc", ".swiftpm/x",
    ])
    func `a tracked build product is found`(_ path: String) {
        #expect(BuildProducts.findings(tracked: ["Package.swift", path]).map(\.path) == [path])
    }

    @Test(arguments: [
        #"[{"id": "A", "length": 1, "hex": "00"}, {"id": "A", "length": 1, "hex": "00"}]"#,
        #"[{"id": "A", "length": 2, "hex": "00"}]"#, #"[{"id": "A", "length": 1, "hex": "0G"}]"#,
        #"[{"id": "A", "length": 1, "hex": "AA"}]"#,
    ])
    func `a broken vector is found`(_ json: String) throws {
        #expect(try VectorFile(path: "vectors.json", json: json).findings.count == 1)
    }

    @Test func `a sound vector passes and a file of something else is an error`() throws {
        let sound = #"[{"id": "A", "length": 2, "hex": "00ff"}]"#
        #expect(try VectorFile(path: "vectors.json", json: sound).findings == [])
        #expect(throws: DecodingError.self) { try VectorFile(path: "vectors.json", json: "[1]") }
    }
}
