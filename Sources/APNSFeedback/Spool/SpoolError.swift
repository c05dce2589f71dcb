// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Why the spool cannot be used.
///
/// Later versions may add cases.
@nonexhaustive
public enum SpoolError: Error, Hashable, Sendable {
    /// Another process drains the topic of this certificate into this spool; the number of the process if it is known.
    case held(path: String, holder: Int32?)
    /// The folder cannot be created, or a file in it cannot be opened.
    case cannotCreate(path: String, detail: String)
    /// Another user can change the files in the folder.
    case unsafeFolder(path: String, detail: String)
    /// The disk is full, or a quota is reached.
    case full(path: String)
    /// The disk has less free space than is reserved before a service is contacted.
    case noRoom(path: String, byteCount: Int)
    /// A file cannot be read, written or renamed.
    case inputOutput(path: String, action: String, detail: String)

    /// The error of the last system call.
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
            "\(holder.map { "process \($0)" } ?? "another process") is draining with the lock \(path); run again when "
                + "it has ended, because two drains would share the list between them"
        case .cannotCreate(let path, let detail):
            "cannot open \(path): \(detail); check that the spool folder exists and this user may write to it"
        case .unsafeFolder(let path, let detail):
            "spool folder \(path) \(detail), who could change what is recorded; run as its owner, or use a folder that "
                + "only this user can write to"
        case .full(let path):
            "the disk with \(path) is full; what was spooled before is kept, but later bytes may be lost; free some "
                + "space and run again"
        case .noRoom(let path, let byteCount):
            "the disk with \(path) has less than the required \(byteCount >> 20) MiB of free space; the service was "
                + "not contacted; free some space and run again"
        case .inputOutput(let path, let action, let detail):
            "cannot \(action) \(path): \(detail); what was spooled before is kept; run again after fixing this"
        }
    }
}
