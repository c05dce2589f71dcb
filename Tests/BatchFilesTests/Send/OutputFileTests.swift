// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@testable import BatchFiles

/// Goal: what is written somewhere is there, or an error says that it is not.
@Suite struct OutputFileTests {
    private let folder: SendFolder

    init() throws {
        self.folder = try SendFolder()
        // As the commands do.
        signal(SIGPIPE, SIG_IGN)
    }

    @Test func `a file that another process writes is left alone`() throws {
        let path = self.folder.file("results")
        let held = try OutputFile(path: path)
        try held.append("first\n")
        let failure = SendFolder.failure { _ = try OutputFile(path: path) }
        #expect(failure?.kind == .inUse)
        #expect(failure?.description == "\(path) is in use by another process; wait until it ends")
        try held.append("second\n")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "first\nsecond\n")
    }

    @Test func `a file can be written again when its process has closed it`() throws {
        let path = self.folder.file("results")
        do { try OutputFile(path: path).append("a longer one\n") }
        try OutputFile(path: path).append("second\n")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "second\n")
    }

    @Test func `a pipe that nobody reads from is refused`() throws {
        let path = self.folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let failure = SendFolder.failure { _ = try OutputFile(path: path) }
        #expect(failure?.kind == .uncreatable)
        #expect(
            failure?.description == "cannot write \(path): no process reads this pipe; start the reader first"
        )
    }

    @Test func `a reader that comes a little later is waited for`() throws {
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

    @Test func `a pipe whose reader went away is an error, and no silence`() throws {
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
