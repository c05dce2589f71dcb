// SPDX-License-Identifier: Apache-2.0

/// What is wrong and at which byte; its line and column are computed only if needed.
@usableFromInline
package struct ScanFailure: Error, Hashable, Sendable {
    /// What is wrong.
    package let problem: JSONProblem
    /// The offset of the first byte at fault from the start of the scanner's bytes.
    package let byteOffset: Int

    package init(_ problem: JSONProblem, byteOffset: Int) {
        self.problem = problem
        self.byteOffset = byteOffset
    }
}

extension UnsafeRawBufferPointer {
    /// Counts lines and code points up to an offset; this costs time only for invalid text.
    ///
    /// Returns the line and the column of the byte, both counted from 1; LF, CR LF and a single CR end a line.
    package func place(of byteOffset: Int) -> (line: Int, column: Int) {
        var line = 1
        var column = 1
        var previous: UInt8 = 0
        for index in 0..<Swift.min(byteOffset, self.count) {
            let byte = unsafe self[index]
            switch byte {
            case 0x0A:
                line += previous == 0x0D ? 0 : 1
                column = 1
            case 0x0D:
                line += 1
                column = 1
            case 0x80...0xBF:
                break
            default:
                column += 1
            }
            previous = byte
        }
        return (line, column)
    }
}
