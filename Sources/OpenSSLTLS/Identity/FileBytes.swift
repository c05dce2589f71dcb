// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads small files of certificates and keys.
package enum FileBytes {
    /// The maximum size of a file, in bytes; system trust bundles have about 250,000.
    static let byteCountMax = 16 << 20

    /// How long to wait for a pipe, such as that of a program which prints a passphrase.
    private static let pipeDurationMax = Duration.seconds(10)

    /// Where a process finds its open files: a pipe there, as from a shell's `<(...)`, has a writer already.
    private static let openFiles = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"]

    /// The bytes of the file at `path`.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - allowsNamedPipe: whether it may be a named pipe, such as one that a program writes a passphrase to.
    /// - Returns: the bytes, at most 16 MiB.
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)``, also if a pipe is not closed within 10 seconds.
    package static func read(_ path: String, allowsNamedPipe: Bool = false) throws(TLSError) -> [UInt8] {
        try self.read(path, allowsNamedPipe: allowsNamedPipe, pipeDurationMax: self.pipeDurationMax)
    }

    static func read(_ path: String, allowsNamedPipe: Bool, pipeDurationMax: Duration) throws(TLSError) -> [UInt8] {
        func failure(_ detail: String) -> TLSError { .fileUnreadable(path: path, detail: detail) }
        func systemFailure() -> TLSError { unsafe failure(String(cString: strerror(errno))) }
        var facts = stat()
        // Opening a named pipe would release its writer, and then lose what it writes.
        let refusesPipe = !allowsNamedPipe && !Self.openFiles.contains { path.hasPrefix($0) }
        guard unsafe !refusesPipe || stat(path, &facts) != 0 || facts.st_mode & S_IFMT != S_IFIFO else {
            throw failure("it is a named pipe, not a file")
        }
        // Without O_NONBLOCK, opening a pipe may block forever.
        let descriptor = path.utf8.contains(0) ? -1 : unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw path.utf8.contains(0) ? failure("no such file") : systemFailure() }
        defer { close(descriptor) }
        // The data of a terminal or a pipe may arrive late.
        let isPipe = unsafe fstat(descriptor, &facts) == 0 && [S_IFIFO, S_IFCHR].contains(facts.st_mode & S_IFMT)
        let deadline = ContinuousClock.now + pipeDurationMax
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16384)
        while true {
            if isPipe {
                let milliseconds = max(0, (deadline - ContinuousClock.now) / .milliseconds(1))
                var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard unsafe poll(&request, 1, Int32(milliseconds)) != 0 else {
                    throw failure("it is a pipe, and what comes out of it did not end within \(pipeDurationMax)")
                }
            }
            let count = unsafe piece.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count == 0 { return bytes }
            if count < 0 {
                guard errno == EINTR || isPipe && errno == EAGAIN else { throw systemFailure() }
                continue
            }
            bytes += piece[..<count]
            guard bytes.count <= Self.byteCountMax else {
                throw failure("it is longer than \(Self.byteCountMax) bytes")
            }
        }
    }

    /// The first line of a file, without its line break (LF or CR LF).
    package static func firstLine(of bytes: [UInt8]) -> ArraySlice<UInt8> {
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
        return line.last == UInt8(ascii: "\r") ? line.dropLast() : line
    }
}
