// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import Glibc
import NIOCore
import SystemPackage

/// Asks the system, before a command starts, for what the command ends without a word where it is missing.
enum ProcessResources {
    /// What an event loop opens: for events, to be woken, and for timers.
    private static let fileCountPerEventLoop = 3

    /// What a command has open beside event loops and connections: files that it reads and writes, those of SQLite,
    /// listeners, signals, the resolver.
    private static let fileCount = 24

    /// What the runtime of Swift opens for its own threads, with some to spare.
    static let fileCountOfRuntime = 8

    /// The address space that threads, their stacks and first buffers take, in bytes.
    private static let addressSpaceByteCount = 67_108_864

    /// The limits of open files that the process has: a process may begin with a lower one than it may have.
    ///
    /// - Returns: how many files may be open from now on.
    @discardableResult
    static func raiseFileLimit() -> Int {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        limit.rlim_cur = limit.rlim_max
        unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        return Int(clamping: limit.rlim_cur)
    }

    /// Finds out whether a command can start.
    ///
    /// - Parameter connectionCount: how many connections it opens of its own accord.
    /// - Throws: ``CommandFailure`` that says what is missing.
    static func require(connectionCount: Int = 0) throws(CommandFailure) {
        try Self.requireFiles(Self.fileCount + Self.fileCountPerEventLoop * System.coreCount + connectionCount)
        try Self.requireMemory()
    }

    /// Finds out whether so many files can be opened now.
    static func requireFiles(_ count: Int) throws(CommandFailure) {
        let allowedCount = Self.raiseFileLimit()
        var descriptors: [CInt] = []
        defer { for descriptor in descriptors { close(descriptor) } }
        while descriptors.count < count {
            let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else {
                let code = errno
                guard code == EMFILE else { throw CommandFailure(.systemError, SystemLimit.sentence(code) + ".") }
                throw CommandFailure(
                    .systemError,
                    "too few files may be open: \(count - descriptors.count) more than the limit of \(allowedCount) "
                        + "are needed; raise it, for example with ulimit -n 1024."
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
                "there is too little memory (\(Errno(rawValue: errno))); raise the limit of the address "
                    + "space (ulimit -v)."
            )
        }
        unsafe munmap(memory, Self.addressSpaceByteCount)
    }
}
