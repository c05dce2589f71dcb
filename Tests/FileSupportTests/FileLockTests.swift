// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import Testing

/// Goal: a lock excludes other processes while it is held, and names its holder.
struct FileLockTests {
    /// A path in its own folder, for the duration of a test.
    private func withPath(_ body: (String) throws -> Void) throws {
        var template = Array("/tmp/apns-legacy-lock-XXXXXX".utf8CString)
        let folder = try #require(
            template.withUnsafeMutableBufferPointer { buffer in
                buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
            }
        )
        let path = folder + "/x.lock"
        defer {
            unlink(path)
            rmdir(folder)
        }
        try body(path)
    }

    private func content(_ path: String) -> String {
        let file = open(path, O_RDONLY)
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(file, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
    }

    @Test func `a held lock is refused with the ID of its process, and can be acquired afterwards`() throws {
        try self.withPath { path in
            for _ in 0..<2 {
                let lock = try FileLock(path: path)
                withExtendedLifetime(lock) {
                    #expect(self.content(path) == "\(getpid())\n")
                    #expect(throws: FileLock.Failure.held(holder: getpid())) { try FileLock(path: path) }
                    // The refused attempt has not emptied the holder's file.
                    #expect(self.content(path) == "\(getpid())\n")
                }
            }
            #expect(self.content(path).isEmpty)
        }
    }

    @Test(arguments: ["", "-5\n", "12x\n", "99999999999\n", "0\n", "abc"])
    func `a file without a process ID does not block`(_ text: String) throws {
        try self.withPath { path in
            let file = open(path, O_RDWR | O_CREAT, 0o600)
            defer { close(file) }
            _ = text.withCString { write(file, $0, strlen($0)) }
            let isTaken = try FileLock.acquire(file)
            #expect(isTaken)
            #expect(throws: FileLock.Failure.held(holder: nil)) { try FileLock(path: path) }
        }
    }

    @Test func `locking an open file keeps its content`() throws {
        try self.withPath { path in
            let (file, other) = (open(path, O_RDWR | O_CREAT, 0o600), open(path, O_RDWR))
            defer { for file in [file, other] { close(file) } }
            #expect(write(file, "abc", 3) == 3)
            let (isTaken, isTakenAgain) = (try FileLock.acquire(file), try FileLock.acquire(other))
            #expect(isTaken && !isTakenAgain)
            #expect(self.content(path) == "abc")
        }
    }

    @Test func `a path that cannot be opened has a reason`() throws {
        #expect(throws: FileLock.Failure.system(action: .open, code: ENOENT)) {
            try FileLock(path: "/nowhere/at/all.lock")
        }
        #expect(throws: FileLock.Failure.system(action: .lock, code: EBADF)) { try FileLock.acquire(-1) }
    }
}
