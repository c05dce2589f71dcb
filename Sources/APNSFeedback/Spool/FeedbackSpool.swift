// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSystemSupport
import Glibc

/// A folder in which what was read from the feedback service waits until it was taken.
///
/// Files of a topic and environment begin with its `fileStem`: `.lock`, `.next`, and for each connection a segment,
/// `.TIME-PROCESS-COUNT.spool`, beside which `.taken` says how much of it was taken. What cannot be used is set aside
/// under the same name with another ending, and is never read or removed again: `.partial`, `.torn`, `.malformed`,
/// `.damaged`.
struct FeedbackSpool: Sendable {
    /// The folder, without a slash at its end.
    let folder: String

    static let segmentEnding = ".spool"

    /// Makes the folder where it is not there; what is above it must be.
    ///
    /// - Parameter folder: the folder.
    /// - Throws: ``SpoolError``.
    init(folder: String) throws(SpoolError) {
        let stem = String(folder.reversed().drop { $0 == "/" }.reversed())
        self.folder = stem.isEmpty ? folder : stem
        guard unsafe mkdir(folder, 0o700) != 0 else { return }
        guard errno == EEXIST else { throw SpoolError.current("open", folder) }
        var status = stat()
        guard unsafe stat(folder, &status) == 0 else { throw SpoolError.current("open", folder) }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw unsafe SpoolError.cannotCreate(path: folder, detail: String(cString: strerror(ENOTDIR)))
        }
    }

    /// Takes the lock of a topic and environment.
    ///
    /// - Parameter scope: the topic and environment.
    /// - Returns: the lock, which ends with its last reference.
    /// - Throws: ``SpoolError/held(path:holder:)``, and that it cannot be taken.
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

    /// The segments that earlier connections left, the oldest first.
    func segments(_ scope: TokenScope) throws(SpoolError) -> [String] {
        let names = try SpoolNames.list(self.folder)
        return names.filter { $0.hasPrefix(scope.fileStem + ".") && $0.hasSuffix(Self.segmentEnding) }
            .filter {
                !$0.dropFirst(scope.fileStem.utf8.count + 1).dropLast(Self.segmentEnding.utf8.count).contains(".")
            }
            .map(self.path)
    }

    /// Makes the segment of a connection, with room for what comes.
    func begin(_ header: SpoolHeader) throws(SpoolError) -> SpoolSegment {
        var number = 0
        while true {
            let name = "\(header.scope.fileStem).\(header.startedAt)-\(getpid())-\(number)"
            number += 1
            let path = self.path(name + Self.segmentEnding)
            // A name that was used and set aside is not used again either.
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

    // MARK: What was taken

    /// How many bytes of a segment's content were taken; 0 where nothing is noted.
    func takenByteCount(of path: String) throws(SpoolError) -> UInt64 {
        let path = Self.aside(path, Self.takenEnding)
        guard unsafe access(path, F_OK) == 0 else { return 0 }
        let bytes = try SpoolFile(path: path, O_RDONLY).read(byteCount: Self.takenByteCount, at: 0)
        let count = bytes.prefix(8)
        // What a crash cut short counts for nothing: then all of the segment is handed over again.
        guard bytes.count == Self.takenByteCount,
            SpoolDigest.of(Array(count), at: 0)?.elementsEqual(bytes.dropFirst(8)) == true
        else { return 0 }
        return count.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Notes how many bytes of a segment's content were taken.
    func setTakenByteCount(_ count: UInt64, of path: String) throws(SpoolError) {
        let bytes = SpoolFormat.bytes(count)
        guard let digest = SpoolDigest.of(bytes, at: 0) else { return }
        let file = try SpoolFile(path: Self.aside(path, Self.takenEnding), O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(bytes + digest)
        try file.synchronize()
        try SpoolNames.synchronize(folder: self.folder)
    }

    /// Removes the note of what was taken, before the segment goes or changes.
    func removeTakenByteCount(of path: String) throws(SpoolError) {
        let path = Self.aside(path, Self.takenEnding)
        guard unsafe access(path, F_OK) == 0 else { return }
        try SpoolNames.remove(path)
        try SpoolNames.synchronize(folder: self.folder)
    }

    private static let takenEnding = "taken"
    private static let takenByteCount = 8 + SpoolDigest.byteCount

    /// Removes a segment of which everything was taken.
    func acknowledge(_ path: String) throws(SpoolError) {
        try self.removeTakenByteCount(of: path)
        try SpoolNames.remove(path)
        try SpoolNames.synchronize(folder: self.folder)
    }

    /// Renames a segment so that it is not read again.
    ///
    /// - Returns: its new path.
    func setAside(_ path: String, as ending: SpoolLeftover.Kind) throws(SpoolError) -> String {
        let aside = Self.aside(path, ending.rawValue)
        try self.removeTakenByteCount(of: path)
        try SpoolNames.rename(path, to: aside)
        // A process that was killed had taken room behind its end.
        if let file = try? SpoolFile(path: aside, O_RDWR) { try? file.truncate(to: file.byteCount()) }
        try SpoolNames.synchronize(folder: self.folder)
        return aside
    }

    /// Writes the bytes of a tuple without its rest beside the segment.
    ///
    /// - Returns: the path of what was written.
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

/// Something in the spool that could not be used, and was set aside.
public struct SpoolLeftover: Hashable, Sendable {
    /// What is wrong with it; the raw value is the ending of the file's name.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: String, Hashable, Sendable {
        /// The bytes of one tuple whose rest did not come.
        case partial
        /// A segment whose last record was cut short by a power failure; what was before it is on the list, and of it
        /// the whole tuples up to the first without a time that can be.
        case torn
        /// A segment in which there is no tuple where one should begin; what was before it is on the list.
        case malformed
        /// A segment that is damaged; what was before the damage is on the list.
        case damaged
    }

    /// What is wrong with it.
    public var kind: Kind
    /// Where it is now.
    public var path: String
    /// Whether a drain before this one left it.
    public var isFromEarlier: Bool
    /// What was found, for people.
    public var detail: String
}

extension SpoolLeftover: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self.kind {
        case .partial:
            "A tuple came without its end; its \(self.detail) bytes are kept in \(self.path)."
        case .torn:
            "A power failure cut the last record of a segment short. On the list is what was before it, and of it so "
                + "many whole tuples: \(self.detail). What else there is of it is nowhere but in \(self.path)."
        case .malformed:
            "\(self.detail) Is the other end a feedback service? What was before is on the list; "
                + "all that was read is kept as \(self.path)."
        case .damaged:
            "A segment of the spool is damaged (\(self.detail)). All of it is kept as \(self.path). Look at the disk; "
                + "if there is a copy of the file, put it back under its name with .spool at the end, and run again."
        }
    }
}
