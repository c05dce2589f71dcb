// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A file that keeps other processes out of what it stands for; held until this object goes.
///
/// The lock ends with the process that holds it, however that ends. The file stays, with the number of the process in
/// it while it is held.
package final class FileLock: Sendable {
    /// Why there is no lock.
    package enum Failure: Error, Hashable, Sendable {
        /// Another holds it; its process where that is known.
        case held(holder: Int32?)
        /// A system call failed with this error.
        case system(action: Action, code: CInt)

        /// What was tried.
        package enum Action: String, Hashable, Sendable { case open, lock, read, write }
    }

    /// The open file; a process that inherits it holds the lock as well, until it ends.
    package let descriptor: CInt

    /// The most that is read of a lock file, in bytes.
    private static let contentByteCountMax = 32

    /// Takes the lock.
    ///
    /// - Parameter path: the lock file, which is created if missing.
    /// - Throws: ``Failure``.
    package init(path: String) throws(Failure) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(action: .open, code: errno) }
        do throws(Failure) {
            guard try Self.take(descriptor) else { throw .held(holder: try Self.holder(descriptor)) }
            try Self.write(descriptor)
        } catch {
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
    }

    deinit {
        // Without the number nobody takes the last holder for the present one.
        _ = ftruncate(self.descriptor, 0)
        close(self.descriptor)
    }

    /// Takes the lock of an open file until it is closed, without waiting.
    ///
    /// - Parameter descriptor: the file, whose content stays as it is.
    /// - Returns: whether nobody else holds it.
    /// - Throws: ``Failure`` where it cannot be locked at all.
    package static func take(_ descriptor: CInt) throws(Failure) -> Bool {
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            guard code == EWOULDBLOCK else { throw .system(action: .lock, code: code) }
            return false
        }
        return true
    }

    /// The process that the file names.
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
