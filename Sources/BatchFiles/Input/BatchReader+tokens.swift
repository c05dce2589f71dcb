// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension BatchReader {
    /// Reads on in a file of tokens.
    mutating func nextToken(_ record: inout BatchRecord) -> BatchReadResult {
        guard let payload = unsafe self.common else { return self.refuse(.missingPayload) }
        if self.usualToken(&record) {
            record.begin(lineNumber: self.lines.lineNumber)
            unsafe record.payload = UnsafeRawBufferPointer(payload)
            return .record
        }
        while true {
            switch self.lines.next() {
            case .needMore: return .needMore
            case .end: return .end
            case .tooLong: return self.tooLong()
            case .line(let line):
                let text = unsafe line.trimmed
                guard let first = unsafe text.first, first != UInt8(ascii: "#") else { continue }
                guard unsafe DeviceTokenText.decode(text, into: &record.token) else { return self.bad(.invalidToken) }
                record.begin(lineNumber: self.lines.lineNumber)
                unsafe record.payload = UnsafeRawBufferPointer(payload)
                return .record
            }
        }
    }

    /// Reads the line that nearly all are like, 64 digits and an end, for which no end need be searched.
    @inline(__always)
    private mutating func usualToken(_ record: inout BatchRecord) -> Bool {
        let end = self.lines.position + 2 * WireLimits.tokenByteCountUsual
        guard end < self.lines.filled, unsafe self.lines.block[end] == 0x0A, !self.lines.isSkipping else {
            return false
        }
        let text = unsafe self.lines.bytes(self.lines.position..<end)
        guard unsafe DeviceTokenText.decodeUsual(text, into: &record.token) else { return false }
        self.lines.take(through: end + 1)
        return true
    }
}
