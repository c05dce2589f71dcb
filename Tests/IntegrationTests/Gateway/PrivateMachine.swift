// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport

/// Runs commands in a private environment: with its own hosts file, network and processes.
///
/// Apple's host names then resolve to loopback, for programs that accept no other name, and the ports of the binary
/// protocol are free.
struct PrivateMachine {
    /// A shell command, and its condition for success.
    struct Command {
        var text: String
        /// Whether it runs in the background, and is ready after its first line of output.
        var isServer: Bool { self.text.hasSuffix("&") }
    }

    private let temporary: TemporaryFolder
    /// The working directory of the commands.
    var folder: String { self.temporary.path }

    static let scripts = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Interop/tutorials")

    /// Creates an environment with some of the scripts in its working directory.
    init(scripts: [String]) throws {
        self.temporary = try TemporaryFolder()
        for name in scripts {
            try FileManager.default.copyItem(
                atPath: Self.scripts.appending(path: name).path,
                toPath: "\(self.folder)/\(name)"
            )
        }
    }

    /// Runs commands in sequence until one fails, and then ends all background ones.
    ///
    /// - Returns: the output of each.
    /// - Throws: an error with the output of all if one failed.
    func run(_ commands: [Command], deadline: Int64 = 60) async throws -> [String] {
        var lines = [
            "set -u",
            "fail() { echo \"command $1 ended with $2\"; cat output.$1 error.*; exit 1; }",
        ]
        for (number, command) in commands.enumerated() {
            if command.isServer {
                lines += [
                    "mkfifo ready.\(number)",
                    "\(command.text.dropLast()) > ready.\(number) 2> error.\(number) &",
                    // The descriptor stays open, so that the pipe always has a reader.
                    "exec {reader}< ready.\(number)",
                    "read -r -t \(deadline) line <&$reader || fail \(number) nothing",
                    "echo \"$line\" > output.\(number)",
                ]
            } else {
                lines.append("{ \(command.text)\n} > output.\(number) 2> error.\(number) || fail \(number) $?")
            }
        }
        lines.append("kill $(jobs -p)")
        let ending = try await self.execute(lines, deadline: deadline)
        let output = commands.indices.map { self.read("output.\($0)") }
        guard ending.code == 0 else {
            throw Child.Failure(description: "\(ending): \(self.read("log")) \(self.read("log.error")) \(output)")
        }
        return output
    }

    /// Runs a script of bash in the working directory; when it ends, so does all that it started.
    func execute(_ lines: [String], deadline: Int64) async throws -> Child.Ending {
        let lines =
            [
                "mount --make-rprivate /", "ip link set lo up", "cp /etc/hosts etc-hosts",
                "mount --bind etc-hosts /etc/hosts",
                "export PATH='\(URL(filePath: try Child.program).deletingLastPathComponent().path)':\"$PATH\"",
                "export HOME=\"$PWD\"",
            ] + lines
        let script = "\(self.folder)/commands.sh"
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: script))
        let isolation = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        let user = geteuid() == 0 ? [] : ["--user", "--map-root-user"]
        let log = "\(self.folder)/log"
        return try await Child(
            isolation + user + ["bash", "-c", "cd '\(self.folder)' && exec bash commands.sh"],
            Child.Streams(output: log, error: log + ".error"),
            program: "/usr/bin/unshare",
            deadline: deadline
        ).end()
    }

    func read(_ name: String) -> String {
        String(decoding: FileManager.default.contents(atPath: "\(self.folder)/\(name)") ?? Data(), as: UTF8.self)
    }
}
