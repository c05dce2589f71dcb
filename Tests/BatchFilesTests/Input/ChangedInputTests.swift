// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import BatchFiles

/// Goal: a file that changes while it is read never looks like a complete batch.
@Suite(.timeLimit(.minutes(1))) struct ChangedInputTests {
    /// More lines than are read at a time.
    private static let lineCount = 20_000

    /// Reads the lines of a file that changes after its first line.
    private static func lines(_ change: (FileHandle, _ byteCount: UInt64) throws -> Void) throws -> Int {
        let folder = try SendFolder()
        let text = (1...Self.lineCount).map { "line number \($0)\n" }.joined()
        try folder.write("batch", text)
        // The clock of a file system is too coarse for changes in quick succession.
        let past = Date(timeIntervalSince1970: 1_700_000_000)
        try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: folder.file("batch"))
        let input = try SendInput(path: folder.file("batch"))
        let file = try FileHandle(forUpdating: URL(filePath: folder.file("batch")))
        var count = 0
        try input.forEachLine(onProblem: { _, _ in }) { _, _ in
            count += 1
            if count == 1 { try change(file, UInt64(text.utf8.count)) }
        }
        return count
    }

    @Test(arguments: [0, 1, 300_000, 348_893] as [UInt64])
    func `a file that is shortened while it is read is an error`(byteCount: UInt64) throws {
        let failure = SendFolder.failure { _ = try Self.lines { file, _ in try file.truncate(atOffset: byteCount) } }
        #expect(failure?.kind == .unreadable)
        let description = failure?.description ?? ""
        #expect(description.contains("the file was shortened from 3"), "\(description)")
        #expect(description.hasSuffix("to \(byteCount) bytes while it was read"), "\(description)")
    }

    @Test(arguments: [0, 348_894] as [UInt64])
    func `a file that is overwritten or extended while it is read is an error`(offset: UInt64) throws {
        let failure = SendFolder.failure {
            _ = try Self.lines { file, byteCount in
                #expect(byteCount == 348_894)
                try file.seek(toOffset: offset)
                try file.write(contentsOf: Data("other line number\n".utf8))
            }
        }
        #expect(failure?.kind == .unreadable)
        let description = failure?.description ?? ""
        #expect(description.contains("was changed while it was read"), "\(description)")
    }

    @Test func `a file that is truncated and written again while it is read is an error`() throws {
        let failure = SendFolder.failure {
            _ = try Self.lines { file, byteCount in
                try file.truncate(atOffset: 0)
                try file.write(contentsOf: Data(repeating: 0x0A, count: Int(byteCount)))
            }
        }
        #expect(failure?.kind == .unreadable)
    }

    @Test func `a file that does not change is read to its end`() throws {
        #expect(try Self.lines { _, _ in } == Self.lineCount)
    }
}
