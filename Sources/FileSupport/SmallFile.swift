// SPDX-License-Identifier: Apache-2.0

import Glibc
package import SystemPackage

/// Reads whole files that are small, such as keys, and waits for none of them without end.
package enum SmallFile {
    /// Which kinds of files are read.
    package enum Kind: Sendable {
        /// Only regular files.
        case regular
        /// All but named pipes, whose writer would lose what it writes. A pipe of a shell's `<(...)` is read.
        case unnamed
        /// Also named pipes, such as one that a program writes a passphrase to.
        case any
    }

    /// Why a file was not read.
    package enum Failure: Error, Hashable, Sendable {
        /// A system call failed.
        case system(Errno)
        /// It is not a regular file.
        case notRegular
        /// It is a named pipe.
        case namedPipe
        /// It is a pipe or a terminal that did not end in this time.
        case unfinished(Duration)
        /// It is longer than the limit.
        case tooLong
    }

    /// How long to wait for a pipe, such as that of a program which prints a passphrase.
    private static let pipeDurationMax = Duration.seconds(10)

    /// Where a process finds its open files: a pipe there, as from a shell's `<(...)`, has a writer already.
    private static let openFiles = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"]

    /// Reads a file.
    ///
    /// - Throws: ``Failure``.
    package static func read(
        _ path: String,
        _ kind: Kind,
        byteCountMax: Int,
        pipeDurationMax: Duration = Self.pipeDurationMax
    ) throws(Failure) -> [UInt8] {
        guard !path.utf8.contains(0) else { throw .system(.noSuchFileOrDirectory) }
        var facts = stat()
        // Opening a named pipe would release its writer, and then lose what it writes.
        let refusesPipe = kind == .unnamed && !Self.openFiles.contains { path.hasPrefix($0) }
        guard unsafe !refusesPipe || stat(path, &facts) != 0 || facts.st_mode & S_IFMT != S_IFIFO else {
            throw .namedPipe
        }
        // Without O_NONBLOCK, opening a pipe may block forever.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .system(.current) }
        defer { close(descriptor) }
        guard unsafe fstat(descriptor, &facts) == 0 else { throw .system(.current) }
        guard kind != .regular || facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        // The data of a terminal or a pipe may arrive late.
        let isPipe = [S_IFIFO, S_IFCHR].contains(facts.st_mode & S_IFMT)
        let deadline = ContinuousClock.now + pipeDurationMax
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16_384)
        // If it grew, memory that it leaves would keep a part of a key. A pipe has no size.
        bytes.reserveCapacity(min(max(Int(facts.st_size), piece.count), byteCountMax))
        defer { piece.wipe() }
        while true {
            if isPipe {
                let milliseconds = max(0, (deadline - ContinuousClock.now) / .milliseconds(1))
                var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard unsafe poll(&request, 1, Int32(milliseconds)) != 0 else { throw .unfinished(pipeDurationMax) }
            }
            let count = unsafe piece.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count == 0 { return bytes }
            if count < 0 {
                guard errno == EINTR || isPipe && errno == EAGAIN else { throw .system(.current) }
                continue
            }
            bytes += piece[..<count]
            guard bytes.count <= byteCountMax else { throw .tooLong }
        }
    }
}
