// SPDX-License-Identifier: Apache-2.0

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
        #expect(throws: TLSError.self) { try FileBytes.read(path, pipeDurationMax: .milliseconds(20)) }
        async let bytes = Task.detached { try FileBytes.read(path, pipeDurationMax: .seconds(20)) }.value
        // Opens when the pipe has a reader.
        let descriptor = await Task.detached { unsafe open(path, O_WRONLY) }.value
        #expect(unsafe write(descriptor, "secret\n", 7) == 7)
        close(descriptor)
        #expect(try await bytes == Array("secret\n".utf8))
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
