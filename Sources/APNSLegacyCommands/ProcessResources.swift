// SPDX-License-Identifier: Apache-2.0

import CLinux
import Dispatch
import Glibc
import NIOCore
import OpenSSLTLS

/// Checks, before a command starts, for system resources without which the runtime would crash.
enum ProcessResources {
    /// The descriptors of an event loop: epoll, event and timer.
    private static let fileCountPerEventLoop = 3

    /// The other descriptors of a command: its files, those of SQLite, listeners, signals, the resolver.
    private static let fileCount = 24

    /// The descriptors of the Swift runtime's threads, with a reserve.
    static let fileCountOfRuntime = 8

    /// The threads of the runtime besides those of each core: of queues, signals, files and the resolver.
    private static let threadCount = 4

    /// The most cores for whose threads room is required.
    private static let threadCoreCountMax = 14

    /// The time between two checks of `watchThreads`.
    private static let secondsPerCheck: UInt32 = 5

    /// The successive checks without a thread that are a shortage.
    private static let refusalCountMax = 6

    private static let standardDescriptors = [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO]

    /// Opens missing standard descriptors, so that no file opened later gets the number of one of them.
    ///
    /// They can neither be read nor written, so that the command reports an error.
    static func reserveStandardDescriptors() {
        for descriptor in Self.standardDescriptors where fcntl(descriptor, F_GETFD) < 0 {
            // open(2) uses the lowest free number.
            _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Keeps keys and passphrases out of core files, and overwrites the copies that OpenSSL makes when it reads them.
    static func protectSecrets() {
        _ = forbid_core_files()
        OpenSSLMemory.wipeWhenFreed()
    }

    /// Raises the soft limit of open files to the hard limit.
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
    /// - Throws: ``CommandFailure`` that names the missing resource.
    static func require(connectionCount: Int = 0) throws(CommandFailure) {
        try Self.requireFiles(Self.fileCount + Self.fileCountPerEventLoop * System.coreCount + connectionCount)
    }

    /// Checks whether this number of files can be opened, besides the standard descriptors.
    static func requireFiles(_ count: Int) throws(CommandFailure) {
        let allowedCount = Self.raiseFileLimit()
        let missingCount = count + Self.standardDescriptors.count - allowedCount
        guard missingCount > 0 else { return }
        throw CommandFailure(
            .systemError,
            "the limit of open files (\(allowedCount)) is too low by \(missingCount); raise it, for example with "
                + "ulimit -n 1024"
        )
    }

    /// Checks whether the runtime can start its threads.
    ///
    /// If the system refuses one, the runtime tries again forever, and the command neither continues nor ends.
    static func requireThreads() throws(CommandFailure) {
        let count = Self.threadCount + 2 * min(System.coreCount, Self.threadCoreCountMax)
        let allowedCount = Self.startThreads(count)
        guard allowedCount < count else { return }
        throw CommandFailure(
            .systemError,
            "the system allows \(allowedCount) of \(count) threads; raise the limit of memory or of processes, "
                + "which ulimit -v and ulimit -u print"
        )
    }

    /// Calls a function, once, if the system allows no further thread for half a minute.
    ///
    /// This is for a command that runs for long: the memory that was free for threads at its start may be in use.
    static func watchThreads(_ onShortage: @escaping @Sendable () -> Void) {
        DispatchQueue(label: "apns-legacy.threads").async {
            var refusalCount = 0
            while refusalCount < Self.refusalCountMax {
                sleep(Self.secondsPerCheck)
                refusalCount = Self.startThreads(1) == 1 ? 0 : refusalCount + 1
            }
            onShortage()
        }
    }

    /// Starts threads, which end at once, and returns how many the system allows at a time.
    private static func startThreads(_ count: Int) -> Int {
        let end = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
        defer { unsafe end.deallocate() }
        unsafe sem_init(end, 0, 0)
        var threads: [pthread_t] = []
        var code: CInt = 0
        while code == 0, threads.count < count {
            var thread = pthread_t()
            code = unsafe pthread_create(
                &thread,
                nil,
                { end in
                    if let end = unsafe end { unsafe sem_wait(end.assumingMemoryBound(to: sem_t.self)) }
                    return nil
                },
                end
            )
            if code == 0 { threads.append(thread) }
        }
        for _ in threads { unsafe sem_post(end) }
        for thread in threads { pthread_join(thread, nil) }
        unsafe sem_destroy(end)
        return threads.count
    }
}
