// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSupport
import Glibc

/// A folder that stores what was read from the feedback service until it is delivered.
///
/// File names of a topic and environment begin with its `fileStem`: `.lock`, `.next`, and for each connection a
/// segment, `.TIME-PROCESS-COUNT.spool`, with a file `.taken` that contains how much of it was delivered. What cannot
/// be used is set aside under the same name with another extension, and is never read or removed: `.partial`, `.torn`,
/// `.malformed`, `.damaged`.
struct FeedbackSpool: Sendable {
    /// The folder, without a trailing slash.
    let folder: String

    static let segmentEnding = ".spool"

    /// Creates the folder if it is missing; its parent must exist.
    ///
    /// An existing one must belong to this user or root, and other users must not be able to write to it.
    ///
    /// - Throws: ``SpoolError``.
    init(folder: String) throws(SpoolError) {
        let stem = String(folder.reversed().drop { $0 == "/" }.reversed())
        self.folder = stem.isEmpty ? folder : stem
        if unsafe mkdir(folder, 0o700) != 0 {
            guard errno == EEXIST else { throw SpoolError.current("open", folder) }
            try Self.check(folder)
        }
        // Also if it was there: the process that created it may have been killed before this.
        try SpoolNames.synchronize(folder: Folder.of(self.folder))
    }

    /// Checks the owner and the mode of an existing folder.
    private static func check(_ folder: String) throws(SpoolError) {
        var status = stat()
        guard unsafe stat(folder, &status) == 0 else { throw SpoolError.current("open", folder) }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw unsafe SpoolError.cannotCreate(path: folder, detail: String(cString: strerror(ENOTDIR)))
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw SpoolError.unsafeFolder(path: folder, detail: "belongs to another user (\(status.st_uid))")
        }
        guard status.st_mode & S_IWOTH == 0 else {
            throw SpoolError.unsafeFolder(path: folder, detail: "can be written by every user")
        }
    }

    /// Acquires the lock of a topic and environment.
    ///
    /// Returns the lock, which is released with its last reference.
    ///
    /// - Throws: ``SpoolError/held(path:holder:)``, or why it cannot be acquired.
    func lock(_ scope: TokenScope) throws(SpoolError) -> FileLock {
        let path = self.path(scope.fileStem + ".lock")
        do throws(FileLock.Failure) {
            return try FileLock(path: path)
        } catch {
            switch error {
            case .held(let holder): throw .held(path: path, holder: holder)
            case .system(let action, let code): throw SpoolError(code: code, action.rawValue, path)
            }
        }
    }

    func path(_ name: String) -> String { self.folder + "/" + name }

    /// The segments of earlier connections, oldest first.
    func segments(_ scope: TokenScope) throws(SpoolError) -> [String] {
        let names = try SpoolNames.list(self.folder)
        return names.filter { $0.hasPrefix(scope.fileStem + ".") && $0.hasSuffix(Self.segmentEnding) }
            .filter {
                !$0.dropFirst(scope.fileStem.utf8.count + 1).dropLast(Self.segmentEnding.utf8.count).contains(".")
            }
            .map(self.path)
    }

    /// Creates the segment of a connection, with reserved disk space.
    func begin(_ header: SpoolHeader) throws(SpoolError) -> SpoolSegment {
        var number = 0
        while true {
            let name = "\(header.scope.fileStem).\(header.startedAt)-\(getpid())-\(number)"
            number += 1
            let path = self.path(name + Self.segmentEnding)
            // Names of segments that were set aside are not reused either.
            guard unsafe access(path, F_OK) != 0, try !self.isSetAside(name) else { continue }
            do throws(SpoolError) {
                let segment = try SpoolSegment(path: path, header)
                try SpoolNames.synchronize(folder: self.folder)
                return segment
            } catch .full {
                throw .noRoom(path: path, byteCount: SpoolSegment.roomByteCount)
            }
        }
    }

    private func isSetAside(_ name: String) throws(SpoolError) -> Bool {
        try SpoolNames.list(self.folder).contains { $0.hasPrefix(name + ".") }
    }

    // MARK: Delivered bytes

    /// The number of delivered bytes of a segment's content; 0 if none is recorded.
    func deliveredByteCount(of path: String) throws(SpoolError) -> UInt64 {
        let path = Self.aside(path, Self.deliveredSuffix)
        guard unsafe access(path, F_OK) == 0 else { return 0 }
        let bytes = try SpoolFile(path: path, O_RDONLY).read(byteCount: Self.deliveredByteCount, at: 0)
        let count = bytes.prefix(8)
        // A record truncated by a crash is ignored: the whole segment is delivered again.
        guard bytes.count == Self.deliveredByteCount,
            SpoolDigest.of(Array(count), at: 0)?.elementsEqual(bytes.dropFirst(8)) == true
        else { return 0 }
        return count.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Records the number of delivered bytes of a segment's content.
    func setDeliveredByteCount(_ count: UInt64, of path: String) throws(SpoolError) {
        let bytes = SpoolFormat.bytes(count)
        guard let digest = SpoolDigest.of(bytes, at: 0) else { return }
        let file = try SpoolFile(path: Self.aside(path, Self.deliveredSuffix), O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(bytes + digest)
        try file.synchronize()
        try SpoolNames.synchronize(folder: self.folder)
    }

    /// Removes the record of delivered bytes, before the segment is removed or changed.
    func removeDeliveredByteCount(of path: String) throws(SpoolError) {
        let path = Self.aside(path, Self.deliveredSuffix)
        guard unsafe access(path, F_OK) == 0 else { return }
        try SpoolNames.remove(path)
        try SpoolNames.synchronize(folder: self.folder)
    }

    private static let deliveredSuffix = "taken"
    private static let deliveredByteCount = 8 + SpoolDigest.byteCount

    /// Removes a segment that was delivered completely.
    func acknowledge(_ path: String) throws(SpoolError) {
        try self.removeDeliveredByteCount(of: path)
        try SpoolNames.remove(path)
        try SpoolNames.synchronize(folder: self.folder)
    }

    /// Renames a segment so that it is not read again.
    func setAside(_ path: String, as ending: SpoolLeftover.Kind) throws(SpoolError) -> String {
        let aside = Self.aside(path, ending.rawValue)
        try self.removeDeliveredByteCount(of: path)
        try SpoolNames.rename(path, to: aside)
        // A process that was killed had reserved space after its end.
        if let file = try? SpoolFile(path: aside, O_RDWR) { try? file.truncate(to: file.byteCount()) }
        try SpoolNames.synchronize(folder: self.folder)
        return aside
    }

    /// Writes the bytes of an incomplete tuple to a file next to the segment.
    ///
    /// Returns the path of what was written.
    func keepPartial(_ bytes: [UInt8], of path: String) throws(SpoolError) -> String {
        let aside = Self.aside(path, SpoolLeftover.Kind.partial.rawValue)
        let file = try SpoolFile(path: aside, O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(bytes)
        try file.synchronize()
        try SpoolNames.synchronize(folder: self.folder)
        return aside
    }

    /// The path of a file that belongs to a segment.
    private static func aside(_ path: String, _ ending: String) -> String {
        path.dropLast(Self.segmentEnding.utf8.count) + "." + ending
    }
}

/// Data in the spool that could not be used and was set aside.
public struct SpoolLeftover: Hashable, Sendable {
    /// What is wrong with it; the raw value is the extension of the file.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: String, Hashable, Sendable {
        /// The bytes of an incomplete tuple at the end of the list.
        case partial
        /// A segment whose last record was truncated by a power failure; what was before it was delivered, and its
        /// complete tuples up to the first one with an implausible time.
        case torn
        /// A segment with invalid bytes at the start of a tuple; what was before was delivered.
        case malformed
        /// A segment that is damaged; what was before the damage was delivered.
        case damaged
    }

    /// What is wrong with it.
    public var kind: Kind
    /// Its current path.
    public var path: String
    /// Whether an earlier drain left it.
    public var isFromEarlier: Bool
    /// Details in readable form.
    public var detail: String
}

extension SpoolLeftover: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self.kind {
        case .partial:
            "the list ended with an incomplete tuple of \(self.detail) bytes; they are kept in \(self.path)"
        case .torn:
            "a power failure truncated the last record of a segment; what was before it and \(self.detail) complete "
                + "tuples of it were delivered, and the rest is kept in \(self.path)"
        case .malformed:
            "\(self.detail); check that the server is a feedback service; what was before was delivered, and "
                + "everything that was read is kept in \(self.path)"
        case .damaged:
            "a segment of the spool is damaged \(self.detail); it is kept in \(self.path); check the disk, and if you "
                + "have a copy of the file, restore it with the extension .spool and run again"
        }
    }
}
