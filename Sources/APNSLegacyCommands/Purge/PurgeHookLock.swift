// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Keeps two runs from handing the tokens of one list to commands at a time.
///
/// A command inherits the descriptor, so that the lock is held until it has ended too, however this program ends. The
/// file stays.
final class PurgeHookLock {
    let descriptor: CInt

    /// The most that is read of a lock file, in octets.
    private static let contentOctetCountMax = 32

    /// Takes the lock beside a list.
    ///
    /// - Throws: ``CommandFailure`` where another run has it, or the file cannot be made.
    init(list path: String) throws {
        // One list may be known by several paths.
        let resolved = realpath(path, nil)
        defer { free(resolved) }
        let name = (resolved.map { String(cString: $0) } ?? path) + ".exec.lock"
        let descriptor = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(.cannotCreate, "Cannot make \(name): \(String(cString: strerror(errno))).")
        }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            let failure = Self.failure(errno, name, holder: Self.holder(descriptor))
            close(descriptor)
            throw failure
        }
        self.descriptor = descriptor
        let text = "\(getpid())\n"
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.utf8.count, 0)
    }

    deinit {
        // Without the number nobody takes this run for the one that holds it.
        _ = ftruncate(self.descriptor, 0)
        close(self.descriptor)
    }

    private static func holder(_ descriptor: CInt) -> Int32? {
        var octets = [UInt8](repeating: 0, count: self.contentOctetCountMax)
        let count = pread(descriptor, &octets, octets.count, 0)
        return Int32(String(decoding: octets.prefix(max(0, count)).prefix { $0 != 0x0A }, as: UTF8.self))
    }

    private static func failure(_ code: CInt, _ name: String, holder: Int32?) -> CommandFailure {
        guard code == EWOULDBLOCK else {
            return CommandFailure(.ioError, "Cannot lock \(name): \(String(cString: strerror(code))).")
        }
        return CommandFailure(
            .tryAgain,
            "Another run\(holder.map { " (process \($0))" } ?? "") hands this list to a command, or that command is "
                + "still at work. Run again when it has ended."
        )
    }
}
