// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import ArgumentParser
import Batch

/// The source of the payloads.
struct PayloadInputOptions: ParsableArguments, Sendable {
    @Argument(help: .value("input", "A file with a payload, or - for standard input."), completion: .file())
    var input = "-"

    @Flag(help: "Read one payload a line, or lines for apns-legacy send.")
    var jsonl = false

    /// Whether there is one payload per line.
    var isBatch: Bool { self.jsonl || self.input.hasSuffix(".jsonl") || self.input.hasSuffix(".jsonl.gz") }

    /// The size limit of an input with one payload, in bytes.
    private static let byteCountMax = 1 << 20

    /// Calls `body` with each payload.
    ///
    /// - Throws: ``CommandFailure``, `BatchFileError`, and what `body` throws.
    func forEach(_ console: Console, _ body: (PayloadInput) throws -> Void) throws {
        let source = try console.open(self.input)
        try source.begin(expecting: self.isBatch ? .payloads : .payload, isWaiting: true)
        guard self.isBatch else {
            guard let bytes = try source.readAll(byteCountMax: Self.byteCountMax) else {
                throw CommandFailure(
                    .dataError,
                    "\(source.name): more than \(Self.byteCountMax.counted("byte")), expected one payload; if there is "
                        + "one per line, add --jsonl"
                )
            }
            return try body(PayloadInput(alone: bytes, name: source.name))
        }
        // The error at a line that cannot be read, because the function that reports it cannot throw.
        var failure: (any Error)?
        try source.forEachLine { problem, bytes in
            do {
                try body(PayloadInput(problem, bytes, name: source.name))
            } catch {
                failure = failure ?? error
            }
        } _: { text, number in
            if let failure { throw failure }
            try body(PayloadInput(line: text, lineNumber: number, name: source.name))
        }
        if let failure { throw failure }
    }

    /// Calls `body` with each payload, reports why it refuses one, and counts both in the summary.
    func examine(
        _ environment: CommandEnvironment,
        _ body: (PayloadInput) throws -> Diagnostic?
    ) throws -> ExitStatus {
        var (count, refusedCount) = (0, 0)
        try self.forEach(environment.console) { input in
            count += 1
            guard let refusal = try body(input) else { return }
            refusedCount += 1
            environment.console.emit(refusal)
        }
        environment.summary.set("payloads", count)
        environment.summary.set("refused", refusedCount)
        return refusedCount > 0 ? .someRefused : .success
    }

    /// Prints each payload after `change`, in its line if it has one.
    ///
    /// A line whose payload cannot be changed is printed unchanged, so that it remains in the batch. Only a line that
    /// is too long is omitted.
    func rewrite(
        _ environment: CommandEnvironment,
        _ change: (Payload) throws(PayloadProblem) -> Payload
    ) throws -> ExitStatus {
        try self.examine(environment) { input in
            switch Result(catching: { () throws(PayloadRefusal) in try input.text(changedBy: change) }) {
            case .success(let text):
                try environment.console.write(text + "\n")
                return nil
            case .failure(let refusal):
                var diagnostic = input.diagnostic(of: refusal)
                if let line = input.line { try environment.console.write(line + "\n".utf8) }
                guard input.lineNumber != nil else { return diagnostic }
                diagnostic.sentence += input.line == nil ? "; line omitted" : "; line kept unchanged"
                return diagnostic
            }
        }
    }
}

extension PayloadInput {
    /// The name of the input, and the line if it has several, without control characters.
    var printableName: String { self.name.printable() }

    /// The name of the input, and the line if it has several.
    var name: String { "\(Diagnostic.Place(file: self.file, line: self.lineNumber))" }

    /// Why the payload is rejected, and where.
    func diagnostic(of refusal: PayloadRefusal) -> Diagnostic {
        guard case .problem(let problem) = refusal else {
            let place = Diagnostic.Place(file: self.file, line: self.lineNumber)
            return Diagnostic(.warning, "\(self.printableName): \(refusal)", place: place)
        }
        let (line, column) = self.place(of: problem)
        let sentence = "\(self.printableName), \(self.text(of: refusal))"
        return Diagnostic(.warning, sentence, place: .init(file: self.file, line: line, column: column))
    }
}
