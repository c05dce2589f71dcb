// SPDX-License-Identifier: Apache-2.0

/// The targets that a manifest declares, read from its text.
struct PackageManifest {
    struct Target: Hashable {
        /// As in the manifest: `target`, `testTarget` and so on.
        let kind: String
        let name: String
    }

    let targets: [Target]

    init(_ text: String) {
        let declaration = /\.(target|executableTarget|testTarget|systemLibrary|macro|plugin)\(\s*name:\s*"([^"]+)"/
        // A dependency on a target is spelled the same, in the list of dependencies of another.
        self.targets = text.matches(of: declaration).map {
            Target(kind: String($0.output.1), name: String($0.output.2))
        }
    }

    /// Swift files that no target builds, and targets that have no folder.
    func findings(paths: [String]) -> [Finding] {
        let names = Set(self.targets.map(\.name))
        let strays = paths.filter { $0.hasSuffix(".swift") }.filter { path in
            let components = path.split(separator: "/")
            guard let folder = components.first, folder == "Sources" || folder == "Tests" else { return false }
            return components.count < 3 || !names.contains(String(components[1]))
        }.map { Finding(path: $0, line: nil, sentence: "belongs to no target") }
        let empty = self.targets.filter { target in
            let folder = target.kind == "testTarget" ? "Tests" : "Sources"
            return !paths.contains { $0.hasPrefix("\(folder)/\(target.name)/") }
        }.map { Finding(path: "Package.swift", line: nil, sentence: "target \($0.name) has no file") }
        return strays + empty
    }
}
