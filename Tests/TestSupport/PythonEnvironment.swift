// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A virtual environment with packages of PyPI, created once in the build folder.
package struct PythonEnvironment {
    private static let installSecondsMax = 240

    /// A shell script that creates the environment `$1` with the packages from `$3` on, unless it exists.
    ///
    /// Only one environment, `$2`, has pip, whose installation takes longer than that of most packages.
    private static let installation = """
        [ -e "$1/done" ] && exit
        (
            flock 9
            [ -e "$2/done" ] || { rm -rf "$2"; python3 -m venv "$2"; touch "$2/done"; }
        ) 9>"$2.lock"
        rm -rf "$1"
        python3 -m venv --without-pip "$1"
        environment=$1 pip=$2
        shift 2
        "$pip/bin/python" -m pip --python "$environment/bin/python" install --quiet --disable-pip-version-check "$@"
        touch "$environment/done"
        """

    /// The path of its interpreter.
    package let python: String

    /// Creates or finds the environment of a package with a version, such as `pushjack==1.6.0`, and of others that it
    /// needs without naming them.
    package init(_ package: String, with others: [String] = []) async throws {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let cache = URL(filePath: tests).deletingLastPathComponent().appending(path: "python")
        let folder = cache.appending(path: package.replacing("==", with: "-"))
        let pip = cache.appending(path: "pip")
        self.python = folder.appending(path: "bin/python").path
        try FileManager.default.createDirectory(at: cache, withIntermediateDirectories: true)
        // Of several concurrent test processes, one creates it, and the others wait.
        _ = try await Program.run(
            "/usr/bin/env",
            ["flock", "\(folder.path).lock", "sh", "-euc", Self.installation, "sh", folder.path, pip.path, package]
                + others,
            deadlineSeconds: Self.installSecondsMax
        )
    }
}
