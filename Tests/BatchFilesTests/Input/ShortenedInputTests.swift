// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import BatchFiles

/// Goal: a file that becomes shorter while it is read never looks like a complete, shorter batch.
@Suite(.timeLimit(.minutes(1))) struct ShortenedInputTests {
    /// More lines than are read at a time.
    private static let lineCount = 20_000

    /// Reads the lines of a file whose size changes after its first line.
    private static func lines(resizedTo byteCount: (_ whole: UInt64) -> UInt64) throws -> Int {
        let folder = try SendFolder()
        let text = (1...Self.lineCount).map { "line number \($0)\n" }.joined()
        try folder.write("batch", text)
        let input = try SendInput(path: folder.file("batch"))
        let file = try FileHandle(forUpdating: URL(filePath: folder.file("batch")))
        var count = 0
        try input.forEachLine(onProblem: { _, _ in }) { _, _ in
            count += 1
            if count == 1 { try file.truncate(atOffset: byteCount(UInt64(text.utf8.count))) }
        }
        return count
    }

    @Test(arguments: [0, 1, 300_000, 348_893] as [UInt64])
    func `a file that is shortened while it is read is an error`(byteCount: UInt64) throws {
        let failure = SendFolder.failure { _ = try Self.lines { _ in byteCount } }
        #expect(failure?.kind == .unreadable)
        let description = failure?.description ?? ""
        #expect(description.contains("the file was shortened from 3"), "\(description)")
        #expect(description.hasSuffix("to \(byteCount) bytes while it was read"), "\(description)")
    }

    @Test func `a file that keeps its size is read to its end`() throws {
        #expect(try Self.lines { $0 } == Self.lineCount)
    }
}
