// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSTestKit
import Foundation
import TestSupport

/// A folder with certificates, which `openssl` can also read.
final class CertificateScene: Sendable {
    static let topic = "com.example.app"

    private let folder: TemporaryFolder

    init() throws { self.folder = try TemporaryFolder() }

    func path(_ name: String) -> String { self.folder.path + "/" + name }

    @discardableResult
    func write(_ name: String, _ bytes: some Collection<UInt8>) throws -> String {
        let path = try self.folder.write(name, Array(bytes))
        _ = chmod(path, 0o600)
        return path
    }

    func read(_ name: String) throws -> [UInt8] { try Array(Data(contentsOf: URL(filePath: self.path(name)))) }

    func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: self.path(name))[.posixPermissions] as? Int
    }

    var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: self.folder.path).sorted() }
    }

    /// Runs `apns-legacy certificate` in this process, with arguments in the notation of ``create(_:)``.
    func run(_ line: String, now: Int64? = nil) async throws -> CommandRun {
        try await CommandRun(["certificate"] + self.words(line)) { environment in
            // A little later than the creation, so that the remaining time is not a whole number of days.
            let now = now ?? Int64(time(nil)) + 60
            environment.now = { now }
        }
    }

    /// Creates certificates with the command.
    ///
    /// Arguments are separated by spaces; a name that starts with @ is a file in the folder, and ~ stands for a space.
    @discardableResult
    func create(_ line: String) async throws -> CommandRun {
        let run = try await CommandRun(["certificate"] + self.words(line))
        guard run.code == 0 else { throw Child.Failure(description: "\(line) ended with \(run.code): \(run.error)") }
        return run
    }

    /// Runs `openssl`, with arguments in the same notation.
    @discardableResult
    func openssl(_ line: String) async throws -> String {
        let output = try await Program.run("/usr/bin/openssl", self.words(line), deadlineSeconds: 30)
        return String(decoding: output, as: UTF8.self)
    }

    func words(_ line: String) -> [String] {
        line.split(whereSeparator: \.isWhitespace).map { word in
            (word.hasPrefix("@") ? self.path(String(word.dropFirst())) : String(word)).replacing("~", with: " ")
        }
    }

    /// The files or findings in the printed summary.
    static func objects(_ run: CommandRun) throws -> [[String: Any]] {
        let object = try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any]
        return (object?["files"] ?? object?["findings"]) as? [[String: Any]] ?? []
    }
}
