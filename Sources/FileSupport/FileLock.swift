// SPDX-License-Identifier: Apache-2.0

import Glibc

/// An exclusive lock between processes, in the form of a lock file; held until this object is released.
///
/// The lock is released when the process ends for any reason. The file is not deleted; while the lock is held, it
/// contains the process ID.
package final class FileLock: Sendable {
    /// Why the lock was not acquired.
    package enum Failure: Error, Hashable, Sendable {
        /// Another process holds it; its ID if known.
        case held(holder: Int32?)
        /// A system call failed with this error.
        case system(action: Action, code: CInt)

        /// The failed operation.
        package enum Action: String, Hashable, Sendable { case open, lock, read, write }
    }

    /// The open file; a process that inherits it also holds the lock, until it ends.
    package let descriptor: CInt

    /// The maximum number of bytes read from a lock file.
    private static let contentByteCountMax = 32

    /// Acquires the lock.
    ///
    /// - Throws: ``Failure``.
    package init(path: String) throws(Failure) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(action: .open, code: errno) }
        do throws(Failure) {
            guard try Self.acquire(descriptor) else { throw .held(holder: try Self.holder(descriptor)) }
            try Self.write(descriptor)
        } catch {
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
    }

    deinit {
        // Without an old process ID, the previous holder is not mistaken for the current one.
        _ = ftruncate(self.descriptor, 0)
        close(self.descriptor)
    }

    /// Locks an open file until it is closed, without waiting.
    ///
    /// Returns whether the lock was acquired.
    ///
    /// - Throws: ``Failure`` if the file cannot be locked.
    package static func acquire(_ descriptor: CInt) throws(Failure) -> Bool {
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            guard code == EWOULDBLOCK else { throw .system(action: .lock, code: code) }
            return false
        }
        return true
    }

    /// Returns the process ID in the file.
    private static func holder(_ descriptor: CInt) throws(Failure) -> Int32? {
        var content = InlineArray<32, UInt8>(repeating: 0)
        var target = content.mutableSpan
        let count = unsafe target.withUnsafeMutableBytes { target in
            unsafe pread(descriptor, target.baseAddress, Self.contentByteCountMax, 0)
        }
        guard count >= 0 else { throw .system(action: .read, code: errno) }
        var number: Int32 = 0
        for index in 0..<count {
            guard content[index] != 0x0A else { break }
            let digit = content[index] &- UInt8(ascii: "0")
            guard digit < 10, number < Int32.max / 10 else { return nil }
            number = number * 10 + Int32(digit)
        }
        return number > 0 ? number : nil
    }

    private static func write(_ descriptor: CInt) throws(Failure) {
        var line = "\(getpid())\n"
        guard ftruncate(descriptor, 0) == 0 else { throw .system(action: .write, code: errno) }
        let count = line.withUTF8 { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        guard count == line.utf8.count else { throw .system(action: .write, code: errno) }
    }
}
