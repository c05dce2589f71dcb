// SPDX-License-Identifier: Apache-2.0

import APNSJSON
package import APNSPayload

/// Why a payload cannot be read or is rejected.
package enum PayloadRefusal: Error, CustomStringConvertible {
    case problem(PayloadProblem)
    case line(BatchProblem.Kind)
    case noPayload

    package var description: String {
        switch self {
        case .problem(let problem): "\(problem)"
        case .line(let kind): "\(kind)"
        case .noPayload: "missing payload"
        }
    }
}

/// A payload of an input.
package struct PayloadInput {
    /// The name of the input.
    package let file: String
    /// The number of the line, from 1; `nil` if the payload is the whole input.
    package let lineNumber: Int?
    /// The line of the payload; `nil` if the payload is the whole input, or if the line cannot be read.
    private let text: String?
    /// The bytes of the line, even if they are not text; `nil` if the payload is the whole input, or the line too long.
    package let line: [UInt8]?
    /// The payload.
    package let payload: Result<Payload, PayloadRefusal>
    /// The range of the payload in the line, in bytes.
    private let range: Range<Int>

    /// A payload that is the whole input.
    package init(alone bytes: [UInt8], name: String) {
        self.file = name
        self.lineNumber = nil
        self.text = nil
        self.line = nil
        self.payload = .success(Payload(bytes: bytes))
        self.range = bytes.indices
    }

    /// A line that cannot be read; without its bytes if it is too long.
    package init(_ problem: BatchProblem, _ bytes: [UInt8], name: String) {
        self.file = name
        self.lineNumber = problem.lineNumber
        self.text = nil
        self.line = bytes.isEmpty ? nil : bytes
        self.payload = .failure(.line(problem.kind))
        self.range = 0..<0
    }

    /// A line that is a payload, or contains one as in a batch for `apns-legacy send`.
    package init(line: String, lineNumber: Int, name: String) {
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

    /// The place of an error in the input, with the line and the column of the input; both from 1.
    package func place(of problem: PayloadProblem) -> (line: Int, column: Int) {
        guard let text = self.text, let lineNumber = self.lineNumber else { return (problem.line, problem.column) }
        let before = text.utf8.prefix(self.range.lowerBound).count { !(0x80...0xBF).contains($0) }
        return (lineNumber, before + problem.column)
    }

    /// Why the payload is rejected; for a payload in a line, with the column of the line.
    package func text(of refusal: PayloadRefusal) -> String {
        guard case .problem(let problem) = refusal, self.text != nil else { return "\(refusal)" }
        return "column \(self.place(of: problem).column): \(problem.kind)"
    }

    /// Checks the payload.
    package func check(_ rules: PayloadRules) -> Result<PayloadMeasure, PayloadRefusal> {
        self.payload.flatMap { payload in
            Result { () throws(PayloadProblem) in try payload.check(rules: rules) }.mapError { .problem($0) }
        }
    }

    /// The payload after `change`, in its line if it has one.
    package func text(
        changedBy change: (Payload) throws(PayloadProblem) -> Payload
    ) throws(PayloadRefusal) -> String {
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
