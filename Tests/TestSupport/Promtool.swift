// SPDX-License-Identifier: Apache-2.0

package import Foundation

/// Prometheus' own tool, which checks metrics and rules.
package struct Promtool {
    private static let fetchSecondsMax = 240
    private static let runSecondsMax = 60

    private let path: String

    /// Finds the tool, or downloads it once for all test runs.
    ///
    /// - Parameter repository: the folder of this package.
    /// - Throws: if it cannot be downloaded.
    package init(repository: URL) async throws {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folder = URL(filePath: tests).deletingLastPathComponent().appending(path: "promtool")
        let script = repository.appending(path: "Scripts/promtool").path
        let printed = try await Program.run(script, [folder.path], deadlineSeconds: Self.fetchSecondsMax)
        self.path = String(decoding: printed, as: UTF8.self).split(separator: "\n").last.map(String.init) ?? ""
    }

    /// Runs it.
    ///
    /// - Throws: an error with its output if it finds a problem.
    package func run(_ arguments: [String], input: String = "") async throws {
        _ = try await Program.run(self.path, arguments, input: Data(input.utf8), deadlineSeconds: Self.runSecondsMax)
    }

    /// Checks metrics in the text format.
    ///
    /// - Throws: an error with its output if it finds a problem.
    package func checkMetrics(_ text: String) async throws { try await self.run(["check", "metrics"], input: text) }
}
