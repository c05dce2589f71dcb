// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import Testing

@testable import Batch

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

    @Test func `after a failed synchronization, none succeeds`() throws {
        let remaining = NIOLockedValueBox(1)
        let file = try OutputFile(path: self.folder.file("results")) { _, operation in
            guard case .synchronize = operation, remaining.withLockedValue({ $0 }) > 0 else { return }
            remaining.withLockedValue { $0 -= 1 }
            throw CocoaError(.fileWriteUnknown)
        }
        try file.append("first\n")
        let failures = (1...2).map { _ in SendFolder.failure { try file.synchronize() } }
        #expect(failures[0]?.kind == .unwritable)
        // The system has forgotten that the bytes are not on the disk.
        #expect(failures[1]?.description == failures[0]?.description)
    }

    private func mode(_ name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: self.folder.file(name))
        return try #require(attributes[.posixPermissions] as? Int)
    }

    @Test(arguments: [false, true]) func `only the owner may read a file, also if it was there before`(
        _ isKept: Bool
    ) throws {
        let path = self.folder.file("results")
        for mode: mode_t? in [nil, 0o666, 0o640, 0o600] {
            if let mode { try #require(chmod(path, mode) == 0) }
            try OutputFile(path: path, isKept: isKept).append("x\n")
            #expect(try self.mode("results") == 0o600)
        }
        #expect(self.folder.read("results") == (isKept ? "x\nx\nx\nx\n" : "x\n"))
    }

    @Test(arguments: [false, true]) func `a link is not followed, and a file with other names is not changed`(
        _ isKept: Bool
    ) throws {
        let path = self.folder.file("results")
        try self.folder.write("victim", "precious")
        for target in ["victim", "missing", "pipe"] {
            if target == "pipe" { try #require(mkfifo(self.folder.file("pipe"), 0o600) == 0) }
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: self.folder.file(target))
            let failure = SendFolder.failure { _ = try OutputFile(path: path, isKept: isKept) }
            #expect(failure?.kind == .uncreatable && failure?.reason == .linked)
            #expect(failure?.description.contains(path) == true)
            try FileManager.default.removeItem(atPath: path)
        }
        try #require(chmod(self.folder.file("victim"), 0o644) == 0)
        try FileManager.default.linkItem(atPath: self.folder.file("victim"), toPath: path)
        let failure = SendFolder.failure { _ = try OutputFile(path: path, isKept: isKept) }
        #expect(failure?.kind == .uncreatable && failure?.reason == .linked)
        #expect(failure?.description.contains(path) == true)
        #expect(
            self.folder.read("victim") == "precious"
                && !FileManager.default.fileExists(atPath: self.folder.file("missing"))
        )
        #expect(try self.mode("victim") == 0o644)
    }

    @Test func `the paths of descriptors are links that are followed`() throws {
        let path = self.folder.file("redirected")
        let descriptor = open(path, O_RDWR | O_CREAT, 0o644)
        defer { close(descriptor) }
        for name in ["/dev/fd/\(descriptor)", "/proc/self/fd/\(descriptor)"] {
            try OutputFile(path: name).append("\(name)\n")
            #expect(self.folder.read("redirected") == "\(name)\n")
        }
        // As the shell made it.
        #expect(try self.mode("redirected") == 0o644)
        _ = try OutputFile(path: "/dev/null")
    }

    @Test func `a file that accepts only some of the bytes is as before, and can be written again`() async {
        await #expect(processExitsWith: .success) {
            // Beyond its limit, the process would be killed.
            signal(SIGXFSZ, SIG_IGN)
            let folder = try SendFolder()
            let file = try OutputFile(path: folder.file("results"))
            try file.append("first\n")
            var limit = rlimit(rlim_cur: 10, rlim_max: .max)
            guard setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { exit(2) }
            let failure = SendFolder.failure { try file.append("second\n") }
            guard failure?.description.hasSuffix("results: File too large") == true else { exit(3) }
            guard file.byteCount == 6, folder.read("results") == "first\n" else { exit(4) }
            limit.rlim_cur = .max
            guard setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { exit(5) }
            try file.append("second\n")
            guard folder.read("results") == "first\nsecond\n" else { exit(6) }
        }
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
