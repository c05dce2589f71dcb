// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A virtual environment with one package of PyPI, made once in the build folder and kept for later runs.
package struct PythonEnvironment {
    private static let installSecondsMax = 240

    /// The path of its interpreter.
    package let python: String

    /// Makes or finds the environment of a package with its version, such as `pushjack==1.6.0`.
    package init(_ package: String) async throws {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let cache = URL(filePath: tests).deletingLastPathComponent().appending(path: "python")
        let folder = cache.appending(path: package.replacing("==", with: "-"))
        let done = folder.appending(path: "done")
        self.python = folder.appending(path: "bin/python").path
        guard !FileManager.default.fileExists(atPath: done.path) else { return }
        try? FileManager.default.removeItem(at: folder)
        try FileManager.default.createDirectory(at: cache, withIntermediateDirectories: true)
        let limit = Self.installSecondsMax
        _ = try await Program.run(
            "/usr/bin/env",
            ["python3", "-m", "venv", folder.path],
            deadlineSeconds: limit
        )
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        _ = try await Program.run(self.python, install, deadlineSeconds: limit)
        try Data().write(to: done)
    }
}
