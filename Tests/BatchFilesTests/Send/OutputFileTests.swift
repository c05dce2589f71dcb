// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@testable import BatchFiles

/// Goal: everything that is written arrives, or an error is thrown.
@Suite struct OutputFileTests {
    private let folder: SendFolder

    init() throws {
        self.folder = try SendFolder()
        // Like the commands.
        signal(SIGPIPE, SIG_IGN)
    }

    @Test func `a file that another process writes is not changed`() throws {
        let path = self.folder.file("results")
        let held = try OutputFile(path: path)
        try held.append("first\n")
        let failure = SendFolder.failure { _ = try OutputFile(path: path) }
        #expect(failure?.kind == .inUse)
        #expect(failure?.description == "\(path) is in use by another process; wait until it ends")
        try held.append("second\n")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "first\nsecond\n")
    }

    @Test func `a file can be written again after its process has closed it`() throws {
        let path = self.folder.file("results")
        do { try OutputFile(path: path).append("a longer one\n") }
        try OutputFile(path: path).append("second\n")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "second\n")
    }

    @Test func `a pipe without a reader is rejected`() throws {
        let path = self.folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let failure = SendFolder.failure { _ = try OutputFile(path: path) }
        #expect(failure?.kind == .uncreatable)
        #expect(
            failure?.description == "cannot write \(path): no process reads this pipe; start the reader first"
        )
    }

    @Test func `a reader may open the pipe a little later`() throws {
        let path = self.folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let reader = Process()
        reader.executableURL = URL(filePath: "/bin/sh")
        reader.arguments = ["-c", "cat '\(path)' > '\(self.folder.file("copy"))'"]
        try reader.run()
        do { try OutputFile(path: path).append("read\n") }
        reader.waitUntilExit()
        #expect(self.folder.read("copy") == "read\n")
    }

    @Test func `a pipe whose reader went away causes an error`() throws {
        let path = self.folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let reader = open(path, O_RDONLY | O_NONBLOCK)
        let file = try OutputFile(path: path)
        try file.append("read\n")
        var bytes = [UInt8](repeating: 0, count: 100)
        #expect(read(reader, &bytes, 100) == 5)
        close(reader)
        let failure = SendFolder.failure { try file.append("lost\n") }
        #expect(failure?.kind == .unwritable)
        #expect(failure?.description == "cannot write \(path): Broken pipe")
    }
}
