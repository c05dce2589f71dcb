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
            environment.console.say(refusal)
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

/// Why a payload cannot be read or is rejected.
enum PayloadRefusal: Error, CustomStringConvertible {
    case problem(PayloadProblem)
    case line(BatchProblem.Kind)
    case noPayload

    var description: String {
        switch self {
        case .problem(let problem): "\(problem)"
        case .line(let kind): "\(kind)"
        case .noPayload: "missing payload"
        }
    }
}

/// A payload of an input.
struct PayloadInput {
    /// The name of the input.
    let file: String
    /// The number of the line, from 1; `nil` if the payload is the whole input.
    let lineNumber: Int?
    /// The line of the payload; `nil` if the payload is the whole input, or if the line cannot be read.
    let text: String?
    /// The bytes of the line, even if they are not text; `nil` if the payload is the whole input, or the line too long.
    let line: [UInt8]?
    /// The payload.
    let payload: Result<Payload, PayloadRefusal>
    /// The range of the payload in the line, in bytes.
    private let range: Range<Int>

    /// A payload that is the whole input.
    init(alone bytes: [UInt8], name: String) {
        self.file = name
        self.lineNumber = nil
        self.text = nil
        self.line = nil
        self.payload = .success(Payload(bytes: bytes))
        self.range = bytes.indices
    }

    /// A line that cannot be read; without its bytes if it is too long.
    init(_ problem: BatchProblem, _ bytes: [UInt8], name: String) {
        self.file = name
        self.lineNumber = problem.lineNumber
        self.text = nil
        self.line = bytes.isEmpty ? nil : bytes
        self.payload = .failure(.line(problem.kind))
        self.range = 0..<0
    }

    /// A line that is a payload, or contains one as in a batch for `apns-legacy send`.
    init(line: String, lineNumber: Int, name: String) {
        self.file = name
        self.lineNumber = lineNumber
        self.text = line
        let bytes = Array(line.utf8)
        self.line = bytes
        switch Result(catching: { () throws(ScanFailure) in try Self.payloadRange(bytes) }) {
        case .success(let range?):
            self.range = range
            self.payload = .success(Payload(bytes: Array(bytes[range])))
        case .success(nil):
            self.range = bytes.indices
            self.payload = .failure(.noPayload)
        case .failure:
            // The check reports what is wrong, and where.
            self.range = bytes.indices
            self.payload = .success(Payload(bytes: bytes))
        }
    }

    /// The name of the input, and the line if it has several.
    var name: String { "\(Diagnostic.Place(file: self.file, line: self.lineNumber))" }

    /// The name, without control characters.
    var printableName: String { self.name.printable() }

    /// The place of an error in the input; for a payload in a line, with the column of the line.
    private func place(of problem: PayloadProblem) -> Diagnostic.Place {
        guard let text = self.text else { return Diagnostic.Place(problem, in: self.file) }
        let before = text.utf8.prefix(self.range.lowerBound).count { !(0x80...0xBF).contains($0) }
        return Diagnostic.Place(file: self.file, line: self.lineNumber, column: before + problem.column)
    }

    /// Why the payload is rejected; for a payload in a line, with the column of the line.
    func text(of refusal: PayloadRefusal) -> String {
        guard case .problem(let problem) = refusal, self.text != nil else { return "\(refusal)" }
        return "column \(self.place(of: problem).column ?? 1): \(problem.kind)"
    }

    /// Why the payload is rejected, and where.
    func diagnostic(of refusal: PayloadRefusal) -> Diagnostic {
        guard case .problem(let problem) = refusal else {
            let place = Diagnostic.Place(file: self.file, line: self.lineNumber)
            return Diagnostic(.warning, "\(self.printableName): \(refusal)", place: place)
        }
        let sentence = "\(self.printableName), \(self.text(of: refusal))"
        return Diagnostic(.warning, sentence, place: self.place(of: problem))
    }

    /// Checks the payload.
    func check(_ rules: PayloadRules) -> Result<PayloadMeasure, PayloadRefusal> {
        self.payload.flatMap { payload in
            Result { () throws(PayloadProblem) in try payload.check(rules: rules) }.mapError { .problem($0) }
        }
    }

    /// The payload after `change`, in its line if it has one.
    func text(changedBy change: (Payload) throws(PayloadProblem) -> Payload) throws(PayloadRefusal) -> String {
        let payload = try self.payload.get()
        do throws(PayloadProblem) {
            let changed = try change(payload).bytes
            guard let text = self.text else { return String(decoding: changed, as: UTF8.self) }
            var bytes = Array(text.utf8)
            bytes.replaceSubrange(self.range, with: changed)
            return String(decoding: bytes, as: UTF8.self)
        } catch {
            throw .problem(error)
        }
    }

    /// Finds the payload in a line: the member `payload` if there is a `token`, otherwise the whole line.
    ///
    /// Returns `nil` if there is a token and no payload.
    private static func payloadRange(_ bytes: [UInt8]) throws(ScanFailure) -> Range<Int>? {
        try unsafe bytes.span.withUnsafeBytes { bytes throws(ScanFailure) -> Range<Int>? in
            var scanner = unsafe JSONScanner(bytes)
            try scanner.begin()
            guard try scanner.kind() == .object else { return 0..<bytes.count }
            scanner.enter()
            var (isFirst, hasToken, range) = (true, false, Range<Int>?.none)
            while let name = try scanner.nextKey(isFirst: &isFirst) {
                let start = scanner.byteOffset
                try scanner.skipValue(enclosedBy: 1)
                switch scanner.text(of: name) {
                case "token": hasToken = true
                case "payload": range = start..<scanner.byteOffset
                default: break
                }
            }
            try scanner.finish()
            return hasToken ? range : 0..<bytes.count
        }
    }
}
