// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import TestSupport
import Testing

@testable import OpenSSLTLS

/// Goal: special files are read as well, and never block forever.
@Suite struct FileBytesTests {
    @Test func `a pipe is read to its end, and the wait for it is limited`() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/pipe"
        try #require(unsafe mkfifo(path, 0o600) == 0)
        @Sendable func read(_ duration: Duration) throws -> [UInt8] {
            try SmallFile.read(path, .any, byteCountMax: 1024, pipeDurationMax: duration)
        }
        #expect(throws: SmallFile.Failure.unfinished(.milliseconds(20))) { try read(.milliseconds(20)) }
        async let bytes = Task.detached { try read(.seconds(20)) }.value
        // Opens when the pipe has a reader.
        let descriptor = await Task.detached { unsafe open(path, O_WRONLY) }.value
        #expect(unsafe write(descriptor, "secret\n", 7) == 7)
        close(descriptor)
        #expect(try await bytes == Array("secret\n".utf8))
    }

    @Test func `a named pipe in the place of a certificate is refused before it is opened`() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/pipe"
        try #require(unsafe mkfifo(path, 0o600) == 0)
        // With a reader and a writer, opening would succeed, and the bytes would be taken.
        let descriptor = unsafe open(path, O_RDWR | O_NONBLOCK)
        defer { close(descriptor) }
        #expect(unsafe write(descriptor, "secret\n", 7) == 7)
        let expected = TLSError.fileUnreadable(path: path, detail: "it is a named pipe, not a file")
        #expect(throws: expected) { try FileBytes.read(path) }
        #expect(throws: expected) { try TLSIdentity(contentsOf: path) }
        #expect(throws: expected) { try TLSContext(.client(trust: .file(path))) }
        #expect(throws: expected) { try ES256PrivateKey(contentsOf: path) }
        var bytes = [UInt8](repeating: 0, count: 8)
        #expect(unsafe Glibc.read(descriptor, &bytes, 8) == 7, "Nothing was read from it.")
    }

    @Test func `a pipe that a shell opened is read`() throws {
        var ends: [CInt] = [0, 0]
        try #require(unsafe pipe(&ends) == 0)
        #expect(unsafe write(ends[1], "key\n", 4) == 4)
        close(ends[1])
        defer { close(ends[0]) }
        #expect(try FileBytes.read("/dev/fd/\(ends[0])") == Array("key\n".utf8))
    }

    @Test func `a folder, a missing file and an endless file are reported`() throws {
        let folder = try TemporaryFolder()
        for (path, reason) in [
            (folder.path, "directory"), (folder.path + "/none", "No such file"), ("/dev/zero", "longer"),
        ] {
            let error = #expect(throws: TLSError.self) { try FileBytes.read(path) }
            #expect(error.map { "\($0)".contains(reason) } == true, "\(path): \(String(describing: error))")
        }
    }
}
