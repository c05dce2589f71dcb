// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport

/// Runs the commands of a document, and compares their output with the document.
///
/// All commands run in one shell, in a temporary folder with the repository's certs-example, on a ``PrivateMachine``:
/// with its own network, hosts file and processes. Fixed ports are therefore free, and programs that are still running
/// at the end are ended.
struct DocumentRun {
    /// How a step ended.
    struct Outcome {
        /// The exit code; `nil` for a step that did not run.
        var code: Int32?
        /// Its output, with standard output and standard error combined, as on a terminal.
        var output: [String]
        /// The numbers of the failed lines of a script, counted from 1.
        var failedLines: [Int]
    }

    let lines: [Substring]
    let steps: [DocumentStep]
    private(set) var outcomes: [Outcome] = []
    /// Whether the document did not finish in time.
    private(set) var isOverdue = false
    private let mask: OutputMask

    /// Runs a document to completion.
    ///
    /// - Parameters:
    ///   - text: the document.
    ///   - deadline: the number of seconds after which everything is killed.
    ///   - usesQuickKeys: whether simulators make keys on P-256, for which the document has no option, since RSA keys
    ///     take a second.
    ///   - pause: the number of seconds that a program in the background gets to print more than its first line, for a
    ///     run that writes its output into the document.
    /// - Throws: ``DocumentProblem`` if the document cannot be read.
    init(_ text: String, deadline: Int64, usesQuickKeys: Bool = false, pause: Int = 0) async throws {
        self.lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        self.steps = try DocumentStep.steps(of: self.lines)
        self.mask = OutputMask(source: self.steps.map(\.text).joined())
        guard !self.steps.isEmpty else { return }
        let folder = try TemporaryFolder()
        let machine = try PrivateMachine(scripts: [])
        let certificates = GatewayTests.repository.appending(path: "certs-example")
        let work = machine.folder + "/work"
        try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: certificates.path, toPath: work + "/certs-example")
        for (number, step) in self.steps.enumerated() {
            let simulator = "apns-legacy simulator "
            let text = usesQuickKeys ? step.text.replacing(simulator, with: simulator + "--key-type ec ") : step.text
            _ = try folder.write("step.\(number)", Array(text.utf8))
        }
        let script = Self.script(self.steps, folder.path, pause: pause)
        self.isOverdue = try await machine.execute(script, deadline: deadline).isOverdue
        self.outcomes = self.steps.indices.map { number in
            func read(_ name: String) -> String {
                let bytes = FileManager.default.contents(atPath: "\(folder.path)/\(name).\(number)")
                return String(decoding: bytes ?? Data(), as: UTF8.self)
            }
            // CSV has CRLF, which is one character in Swift. A realistic folder name replaces that of the test.
            let output = read("output").replacing("\r\n", with: "\n").replacing(work, with: "/home/app/push").replacing(
                "\(machine.folder)/home",
                with: "/home/app"
            )
            var lines = output.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            while lines.last?.isEmpty == true { lines.removeLast() }
            return Outcome(
                code: Int32(read("code").trimmingSpaces),
                output: lines,
                failedLines: read("failed").split(separator: "\n").compactMap { Int($0) }
            )
        }
    }

    /// The lines of the shell that runs the steps and records the result of each in a folder.
    private static func script(_ steps: [DocumentStep], _ folder: String, pause: Int) -> [String] {
        var lines = [
            "mkdir home", "export HOME=\"$PWD/home\" TZ=UTC LC_ALL=C.UTF-8", "cd work", "set -o pipefail",
        ]
        for (number, step) in steps.enumerated() {
            let (text, output) = ("'\(folder)/step.\(number)'", "'\(folder)/output.\(number)'")
            let code = "'\(folder)/code.\(number)'"
            switch step.action {
            case .write(let file):
                lines.append("{ mkdir -p \"$(dirname '\(file)')\" && cat \(text) > '\(file)'; } > \(output) 2>&1")
                lines.append("echo $? > \(code)")
            case .script, .command:
                let isScript = step.action == .script
                if isScript { lines.append("trap 'echo $LINENO >> '\"'\(folder)/failed.\(number)'\" ERR") }
                lines.append("source \(text) < /dev/null > \(output) 2>&1")
                lines.append("code=$?")
                if isScript { lines.append("trap - ERR") }
                if step.isBackground {
                    let count = step.readyLineCount
                    lines += [
                        "timeout 30 tail -n +1 -f --pid=$! \(output) 2>/dev/null | head -n \(count) > /dev/null",
                        "[ \"$(wc -l < \(output))\" -ge \(count) ] || code=1",
                    ]
                    if pause > 0 { lines.append("timeout \(pause) tail -f /dev/null") }
                    // Later output of the program does not belong to this step.
                    lines.append("cp \(output) \(output).now && mv \(output).now \(output)")
                }
                lines.append("echo $code > \(code)")
            }
        }
        return lines
    }

    /// The differences from the document.
    func problems() throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for (step, outcome) in zip(self.steps, self.outcomes) {
            guard let code = outcome.code else {
                let reason = self.isOverdue ? "the time of the document was over" : "the shell ended"
                problems.append(
                    DocumentProblem(line: step.line, text: "\(reason) here: \(Self.quoted(outcome.output))")
                )
                break
            }
            if let failed = outcome.failedLines.first {
                let line = step.line + failed - 1
                problems.append(DocumentProblem(line: line, text: "failed: \(Self.quoted(outcome.output))"))
            } else if code != 0 {
                let text =
                    step.isBackground
                    ? "did not print the \(step.readyLineCount) lines that show it is ready"
                    : "exit code \(code), which the document does not show"
                problems.append(DocumentProblem(line: step.line, text: "\(text): \(Self.quoted(outcome.output))"))
            } else if case .command(let shown) = step.action,
                try !self.mask.matches(shown, outcome.output, isBeginning: step.isBackground)
            {
                let printed = step.isBackground ? Array(outcome.output.prefix(max(1, shown.count))) : outcome.output
                problems.append(DocumentProblem(line: step.line, text: try self.difference(shown, printed)))
            }
        }
        return problems
    }

    private static func quoted(_ lines: [String]) -> String { "\n" + lines.suffix(20).joined(separator: "\n") }

    private func difference(_ shown: [String], _ printed: [String]) throws -> String {
        let (old, new) = try (shown.map(self.mask.callAsFunction), printed.map(self.mask.callAsFunction))
        let missing = zip(old, shown).filter { !new.contains($0.0) }.map { "- \($0.1)" }
        let extra = zip(new, printed).filter { !old.contains($0.0) }.map { "+ \($0.1)" }
        let changes = missing + extra
        return "prints something else:\n" + (changes.isEmpty ? printed : changes).joined(separator: "\n")
    }

    /// The document with the current output of its commands.
    func updatedText() throws -> String {
        var lines = self.lines
        for (step, outcome) in zip(self.steps, self.outcomes).reversed() {
            guard case .command(let shown) = step.action, outcome.code != nil,
                try !self.mask.matches(shown, outcome.output, isBeginning: step.isBackground)
            else { continue }
            let indentation = String(repeating: " ", count: step.indentation)
            let output = try self.mask.updated(shown, outcome.output)
            lines.replaceSubrange(step.outputLines, with: output.map { Substring($0.isEmpty ? "" : indentation + $0) })
        }
        return lines.joined(separator: "\n")
    }
}
