// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import Glibc
import NIOCore
import SystemPackage

/// Checks, before a command starts, for system resources without which the runtime would crash.
enum ProcessResources {
    /// The descriptors of an event loop: epoll, event and timer.
    private static let fileCountPerEventLoop = 3

    /// The other descriptors of a command: its files, those of SQLite, listeners, signals, the resolver.
    private static let fileCount = 24

    /// The descriptors of the Swift runtime's threads, with a reserve.
    static let fileCountOfRuntime = 8

    /// The address space for threads, their stacks and first buffers, in bytes.
    private static let addressSpaceByteCount = 67_108_864

    /// Opens missing standard descriptors, so that no file opened later gets the number of one of them.
    ///
    /// They can neither be read nor written, so that the command reports an error.
    static func reserveStandardDescriptors() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
            // open(2) uses the lowest free number.
            _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Raises the soft limit of open files to the hard limit.
    ///
    /// - Returns: the limit.
    @discardableResult
    static func raiseFileLimit() -> Int {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        limit.rlim_cur = limit.rlim_max
        unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        return Int(clamping: limit.rlim_cur)
    }

    /// Checks whether a command can start.
    ///
    /// - Parameter connectionCount: the number of connections that it opens.
    /// - Throws: ``CommandFailure`` that names the missing resource.
    static func require(connectionCount: Int = 0) throws(CommandFailure) {
        try Self.requireFiles(Self.fileCount + Self.fileCountPerEventLoop * System.coreCount + connectionCount)
        try Self.requireMemory()
    }

    /// Checks whether this number of files can be opened.
    static func requireFiles(_ count: Int) throws(CommandFailure) {
        let allowedCount = Self.raiseFileLimit()
        var descriptors: [CInt] = []
        defer { for descriptor in descriptors { close(descriptor) } }
        while descriptors.count < count {
            let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else {
                let code = errno
                guard code == EMFILE else { throw CommandFailure(.systemError, SystemLimit.sentence(code)) }
                throw CommandFailure(
                    .systemError,
                    "the limit of open files (\(allowedCount)) is too low by \(count - descriptors.count); raise it, "
                        + "for example with ulimit -n 1024"
                )
            }
            descriptors.append(descriptor)
        }
    }

    private static func requireMemory() throws(CommandFailure) {
        let memory = unsafe mmap(nil, Self.addressSpaceByteCount, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let memory = unsafe memory, unsafe memory != MAP_FAILED else {
            throw CommandFailure(
                .systemError,
                "out of memory (\(Errno(rawValue: errno))); raise the limit of the address space "
                    + "(ulimit -v)"
            )
        }
        unsafe munmap(memory, Self.addressSpaceByteCount)
    }
}
