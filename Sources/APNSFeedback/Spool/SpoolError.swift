// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Why the spool cannot be used.
///
/// Later versions may add cases.
@nonexhaustive
public enum SpoolError: Error, Hashable, Sendable {
    /// Another process drains with this certificate's topic into this spool; its number where it is known.
    case held(path: String, holder: Int32?)
    /// The folder cannot be made, or a file in it not opened.
    case cannotCreate(path: String, detail: String)
    /// The disk is full, or a quota is reached.
    case full(path: String)
    /// The disk has not so much room as is taken before a service is asked.
    case noRoom(path: String, byteCount: Int)
    /// A file cannot be read, written or renamed.
    case inputOutput(path: String, action: String, detail: String)

    /// The error of the system call that was made last.
    static func current(_ action: String, _ path: String) -> SpoolError { SpoolError(code: errno, action, path) }

    /// The error of a system call.
    init(code: CInt, _ action: String, _ path: String) {
        let detail = unsafe String(cString: strerror(code))
        if code == ENOSPC || code == EDQUOT {
            self = .full(path: path)
        } else if action == "open" {
            self = .cannotCreate(path: path, detail: detail)
        } else {
            self = .inputOutput(path: path, action: action, detail: detail)
        }
    }
}

extension SpoolError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .held(let path, let holder):
            "Another drain is at work; \(holder.map { "process \($0)" } ?? "it") holds \(path). "
                + "Two at a time would share the list between them; run again when it is done."
        case .cannotCreate(let path, let detail):
            "Cannot open \(path): \(detail). The folder of the spool must be there, and this user must be allowed to "
                + "write in it."
        case .full(let path):
            "The disk with \(path) is full. What was spooled before is kept; what the service sent after that is lost "
                + "where it forgets what it writes. Make room, and run again."
        case .noRoom(let path, let byteCount):
            "The disk with \(path) has no room for what would be read: \(byteCount >> 20) MiB to begin with. The "
                + "service was not asked. Make room, and run again."
        case .inputOutput(let path, let action, let detail):
            "Cannot \(action) \(path): \(detail). What was spooled before is kept; run again when that is mended."
        }
    }
}
