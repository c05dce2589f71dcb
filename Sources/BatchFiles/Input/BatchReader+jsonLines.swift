// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire

extension BatchReader {
    /// Reads on in JSON lines; lines of white space only are passed over in silence.
    mutating func nextJSONLine(_ record: inout BatchRecord) -> BatchReadResult {
        while true {
            switch self.lines.next() {
            case .needMore: return .needMore
            case .end: return .end
            case .tooLong: return self.tooLong()
            case .line(let line):
                var scanner = unsafe JSONScanner(line)
                scanner.skipWhiteSpace()
                guard scanner.next != nil else { continue }
                return unsafe self.read(line, into: &record)
            }
        }
    }

    private mutating func read(_ line: UnsafeRawBufferPointer, into record: inout BatchRecord) -> BatchReadResult {
        record.begin(lineNumber: self.lines.lineNumber)
        var fields = unsafe JSONLineFields(line: line, now: self.options.now, rules: self.rules)
        do throws(ScanFailure) {
            if let fault = try fields.scan(into: &record) {
                return unsafe self.bad(fault.kind, at: fault.byteOffset, in: line)
            }
        } catch {
            return unsafe self.bad(.json(error.kind), at: error.byteOffset, in: line)
        }
        guard fields.has(.token) else { return self.bad(.missingToken) }
        guard let payload = unsafe self.payload(fields, in: line) else { return self.bad(.missingPayload) }
        unsafe record.payload = unsafe payload
        return .record
    }

    private mutating func bad(
        _ kind: BatchProblem.Kind,
        at byteOffset: Int,
        in line: UnsafeRawBufferPointer
    ) -> BatchReadResult {
        let failure = ScanFailure(kind: .syntax(.empty), byteOffset: byteOffset)
        let column = unsafe PayloadProblem(failure, in: line).column
        return self.bad(kind, column: column)
    }

    /// The payload where it stands when it has no white space to lose, else a copy without.
    @inline(__always)
    private func payload(
        _ fields: borrowing JSONLineFields,
        in line: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        guard let measure = fields.payloadMeasure else { return unsafe self.common.map { UnsafeRawBufferPointer($0) } }
        let first = fields.payloadOffset
        let payload = unsafe UnsafeRawBufferPointer(rebasing: line[first..<(first + measure.byteCount)])
        return unsafe self.options.minifiesPayload ? self.minified(payload, measure) : payload
    }

    /// The payload itself when nothing goes, else what is left of it, in the scratch memory.
    @inline(__always)
    func minified(_ payload: UnsafeRawBufferPointer, _ measure: PayloadMeasure) -> UnsafeRawBufferPointer? {
        guard measure.minifiedByteCount < measure.byteCount else { return unsafe payload }
        let room = self.options.lineByteCountMax
        let target = unsafe UnsafeMutableRawBufferPointer(rebasing: self.scratch[room..<(2 * room)])
        return unsafe Payload.minify(payload, into: target).map {
            unsafe UnsafeRawBufferPointer(rebasing: target[..<$0])
        }
    }
}
