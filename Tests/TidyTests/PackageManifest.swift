// SPDX-License-Identifier: Apache-2.0

/// The targets that a manifest declares, read from its text.
struct PackageManifest {
    struct Target: Hashable {
        /// As in the manifest: `target`, `testTarget` and so on.
        let kind: String
        let name: String
        /// The folder that the manifest says, if any.
        var path: String?

        var folder: String { self.path ?? "\(self.kind == "testTarget" ? "Tests" : "Sources")/\(self.name)" }
    }

    let targets: [Target]

    init(_ text: String) {
        let declaration =
            #/
            \.(target|executableTarget|testTarget|systemLibrary|macro|plugin)\(
            \s*name:\s*"([^"]+)" (?:,\s*dependencies:\s*\[[^\]]*\])? (?:,\s*path:\s*"([^"]+)")?
            /#
        // A dependency on a target is spelled the same, in the list of dependencies of another.
        self.targets = text.matches(of: declaration).map {
            Target(kind: String($0.output.1), name: String($0.output.2), path: $0.output.3.map(String.init))
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
            !paths.contains { $0.hasPrefix("\(target.folder)/") }
        }.map { Finding(path: "Package.swift", line: nil, sentence: "target \($0.name) has no file") }
        return strays + empty
    }
}
