// SPDX-License-Identifier: Apache-2.0

/// What may lie in a checkout but never in a commit.
enum BuildProducts {
    static func findings(tracked paths: [String]) -> [Finding] {
        paths.filter { path in
            path.split(separator: "/").contains { SourceTree.isLeftBehind(String($0)) }
        }.map { Finding(path: $0, line: nil, sentence: "is a build product and tracked") }
    }
}
