// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Batch

/// Goal: a file that changes while it is read never looks like a complete batch.
@Suite(.timeLimit(.minutes(1))) struct ChangedInputTests {
    /// More lines than are read at a time.
    private static let lineCount = 20_000

    /// Reads the lines of a file that changes after its first line.
    ///
    /// - Parameters:
    ///   - isKnown: whether all of it was read for a journal before.
    ///   - change: changes the file, whose size is given in bytes.
    /// - Returns: the number of lines that were read.
    /// - Throws: the error of the input.
    private static func lines(
        isKnown: Bool = false,
        _ change: (FileHandle, _ byteCount: UInt64) throws -> Void
    ) throws -> Int {
        let folder = try SendFolder()
        let text = (1...Self.lineCount).map { "line number \($0)\n" }.joined()
        try folder.write("batch", text)
        // The clock of a file system is too coarse for changes in quick succession.
        let past = Date(timeIntervalSince1970: 1_700_000_000)
        try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: folder.file("batch"))
        let input = try SendInput(path: folder.file("batch"))
        if isKnown { _ = try input.content() }
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
        #expect(failure?.kind == .unreadable && failure?.reason == .changed)
        #expect(failure?.description.contains(" \(byteCount) bytes") == true, "\(failure?.description ?? "")")
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
        #expect(failure?.kind == .unreadable && failure?.reason == .changed)
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

    /// Changes a file until the clock of the file system has moved on, and gives it back its time of modification.
    private static func changeKeepingTime(_ file: FileHandle, _ change: () throws -> Void) throws {
        var (before, after) = (stat(), stat())
        try #require(fstat(file.fileDescriptor, &before) == 0)
        repeat {
            try change()
            var times = [before.st_atim, before.st_mtim]
            try #require(futimens(file.fileDescriptor, &times) == 0 && fstat(file.fileDescriptor, &after) == 0)
        } while before.st_ctim.tv_sec == after.st_ctim.tv_sec && before.st_ctim.tv_nsec == after.st_ctim.tv_nsec
        try #require(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_size == after.st_size)
    }

    @Test(
        arguments: [(0, false), (20, false), (10_000, true), (200_000, true), (348_893, true)] as [(UInt64, Bool)]
    )
    func `a file that is overwritten and gets back its old time is an error`(offset: UInt64, isKnown: Bool) throws {
        let failure = SendFolder.failure {
            _ = try Self.lines(isKnown: isKnown) { file, _ in
                try Self.changeKeepingTime(file) {
                    try file.seek(toOffset: offset)
                    try file.write(contentsOf: Data("x".utf8))
                }
            }
        }
        #expect(failure?.kind == .unreadable && failure?.reason == .changed)
    }

    @Test(arguments: [false, true]) func `another mode is no change of the content`(_ isKnown: Bool) throws {
        let count = try Self.lines(isKnown: isKnown) { file, _ in
            try Self.changeKeepingTime(file) { try #require(fchmod(file.fileDescriptor, 0o640) == 0) }
        }
        #expect(count == Self.lineCount)
    }

    @Test func `a journal knows a file by all of its content, whatever its times, mode and links`() throws {
        let folder = try SendFolder()
        let text = (1...Self.lineCount).map { "line number \($0)\n" }.joined()
        func failure(_ text: String) throws -> BatchFileError? {
            try folder.write("batch", text)
            let past = Date(timeIntervalSince1970: 1_700_000_000)
            try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: folder.file("batch"))
            return SendFolder.failure {
                let input = try SendInput(path: folder.file("batch"))
                _ = try SendJournal(path: folder.file("journal"), of: input, payload: nil, results: nil)
            }
        }
        #expect(try failure(text) == nil)
        try FileManager.default.linkItem(atPath: folder.file("batch"), toPath: folder.file("link"))
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: folder.file("batch"))
        #expect(try failure(text) == nil, "A copy, as from a backup.")
        let other = try failure(text.replacing("line number 10000\n", with: "line number 99999\n"))
        #expect(other?.kind == .badData && other?.reason == .otherBatch)
    }

    @Test func `a file that does not change is read to its end`() throws {
        #expect(try Self.lines { _, _ in } == Self.lineCount)
    }
}
