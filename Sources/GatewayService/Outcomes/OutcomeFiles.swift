// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import SystemPackage
import TokenStore

/// The files of a folder of outcomes: one that lines are appended to, and finished ones.
///
/// It is confined to one thread.
struct OutcomeFiles: Sendable {
    /// The limits of the files.
    struct Limits: Hashable, Sendable {
        /// The size of all files, in bytes.
        var byteCountMax: Int
        /// The size at which a file is finished, in bytes.
        var fileByteCountMax: Int
    }

    /// A file that was removed, since the folder was full.
    struct Removal: Hashable, Sendable {
        var name: String
        /// How many outcomes in it the webhook had not accepted.
        var unreadCount: UInt64
    }

    /// What was found when the folder was opened.
    struct Recovery: Hashable, Sendable {
        /// The size of the incomplete line that was cut off, in bytes.
        var cutByteCount: UInt64 = 0
    }

    private static let fileMode: mode_t = 0o640
    private static let folderMode: mode_t = 0o750
    private static let positionName = "webhook.position"
    /// The size of a position with its checksum is smaller, in bytes.
    private static let positionByteCountMax = 64

    let folder: String
    let limits: Limits
    /// Held until the process ends.
    private let lock: FileLock
    /// The number of the next outcome.
    private(set) var nextNumber: UInt64
    private(set) var recovery = Recovery()
    /// The last outcome that the webhook has accepted; 0 if there is none.
    private(set) var position: UInt64
    /// Whether the file with the position is damaged.
    let isPositionDamaged: Bool
    /// The size of all files, in bytes.
    var byteCount: Int { self.finishedByteCount + self.openByteCount }
    private var finishedByteCount = 0
    private(set) var openByteCount = 0
    private(set) var open: OutcomeSegment
    private var file: FileDescriptor?

    /// Opens a folder, which is created if missing, and repairs what a killed process left.
    ///
    /// - Throws: ``GatewayFailure``.
    init(_ folder: String, _ limits: Limits) throws(GatewayFailure) {
        (self.folder, self.limits) = (folder, limits)
        if unsafe mkdir(folder, Self.folderMode) != 0, errno != EEXIST { throw Self.failure(folder, .current) }
        do throws(FileLock.Failure) { self.lock = try FileLock(path: "\(folder)/.lock") } catch {
            switch error {
            case .held: throw .inUse(path: folder)
            case .system(_, let code): throw Self.failure(folder, Errno(rawValue: code))
            }
        }
        let stored = Self.storedPosition(folder)
        (self.position, self.isPositionDamaged) = (stored ?? 0, stored == nil)
        (self.nextNumber, self.open) = (self.position + 1, OutcomeSegment(firstNumber: 1, isOpen: true))
        do throws(Errno) {
            try self.recover()
            try self.measure()
        } catch {
            throw Self.failure(folder, error)
        }
    }

    private static func failure(_ folder: String, _ error: Errno) -> GatewayFailure {
        .configuration("outcomes.folder: \(folder): \(error)")
    }

    private func path(_ segment: OutcomeSegment) -> String { "\(self.folder)/\(segment.name)" }

    // MARK: Opening

    private mutating func recover() throws(Errno) {
        let segments = try OutcomeSegment.all(in: self.folder)
        guard let last = segments.last else { return try self.create() }
        for segment in segments where segment.isOpen { try self.cut(segment) }
        // The numbers continue behind the last file, even if damaged lines hide some.
        var reader = try OutcomeSegmentReader(last, in: self.folder)
        var (lineCount, number) = (UInt64(0), UInt64(0))
        reading: while true {
            switch try reader.next() {
            case .line(let line, _): (lineCount, number) = (lineCount + 1, max(number, line.number))
            case .damage: lineCount += 1
            case .end: break reading
            }
        }
        self.nextNumber = max(self.nextNumber, last.firstNumber + lineCount, number + 1)
        for segment in segments where segment.isOpen && segment != last { try self.finish(segment) }
        guard last.isOpen else { return try self.create() }
        try self.openFile(last)
    }

    /// Cuts off an incomplete line at the end of a file.
    private mutating func cut(_ segment: OutcomeSegment) throws(Errno) {
        let file = try FileDescriptor.opened(self.path(segment), O_RDWR | O_NOFOLLOW)
        defer { Glibc.close(file.rawValue) }
        var reader = try OutcomeSegmentReader(segment, in: self.folder)
        reading: while true { if case .end = try reader.next() { break reading } }
        let size = UInt64(max(0, lseek(file.rawValue, 0, SEEK_END)))
        guard size > reader.offset else { return }
        guard ftruncate(file.rawValue, off_t(reader.offset)) == 0 else { throw .current }
        try file.synchronize()
        self.recovery.cutByteCount += size - reader.offset
    }

    private mutating func create() throws(Errno) {
        try self.openFile(OutcomeSegment(firstNumber: self.nextNumber, isOpen: true), O_CREAT | O_EXCL)
        try Folder.synchronize(self.folder)
    }

    private mutating func openFile(_ segment: OutcomeSegment, _ flags: CInt = 0) throws(Errno) {
        let path = self.path(segment)
        let file = try FileDescriptor.opened(path, O_WRONLY | O_APPEND | O_NOFOLLOW | flags, mode: Self.fileMode)
        if let old = self.file { Glibc.close(old.rawValue) }
        (self.open, self.file) = (segment, file)
        self.openByteCount = Int(max(0, lseek(file.rawValue, 0, SEEK_END)))
    }

    private func finish(_ segment: OutcomeSegment) throws(Errno) {
        var finished = segment
        finished.isOpen = false
        try AtomicFile.moveWithoutReplacing(self.path(segment), to: self.path(finished))
    }

    /// Measures the finished files, some of which a reader may have removed.
    private mutating func measure() throws(Errno) {
        self.finishedByteCount = try OutcomeSegment.all(in: self.folder).filter { $0 != self.open }
            .reduce(0) { $0 + self.byteCount(of: $1) }
    }

    private func byteCount(of segment: OutcomeSegment) -> Int {
        var facts = stat()
        return unsafe lstat(self.path(segment), &facts) == 0 ? Int(facts.st_size) : 0
    }

    // MARK: Writing

    /// Appends lines, and returns when they are on the disk.
    ///
    /// - Throws: the error of a system call; the file is as before then.
    mutating func append(_ lines: [UInt8], count: Int) throws(Errno) {
        try self.replaceRemoved()
        guard let file = self.file else { throw .badFileDescriptor }
        do throws(Errno) {
            try file.write(all: lines.span)
            try file.synchronize()
        } catch {
            // If even this fails, the rest of a line remains, and the next lines go to another file.
            if ftruncate(file.rawValue, off_t(self.openByteCount)) != 0 { try? self.abandonOpen() }
            throw error
        }
        self.openByteCount += lines.count
        self.nextNumber += UInt64(count)
    }

    /// Passes over numbers, whose outcomes were dropped.
    mutating func skip(_ count: UInt64) { self.nextNumber += count }

    /// Begins another file if a reader has removed that which is open.
    private mutating func replaceRemoved() throws(Errno) {
        var facts = stat()
        if let file, unsafe fstat(file.rawValue, &facts) == 0, facts.st_nlink > 0 { return }
        if self.open.firstNumber == self.nextNumber { self.nextNumber += 1 }
        try self.create()
    }

    private mutating func abandonOpen() throws(Errno) {
        let old = self.open
        if old.firstNumber == self.nextNumber { self.nextNumber += 1 }
        try self.create()
        try self.finish(old)
    }

    /// Finishes the open file, begins the next one, and removes the oldest ones if there is no room for it.
    ///
    /// Returns the removed files; what the webhook has accepted does not count as unread, if there is one.
    mutating func rotate(hasWebhook: Bool) throws(Errno) -> [Removal] {
        guard self.openByteCount > 0 else { return [] }
        let old = self.open
        // The next file is first: if it cannot be created, this one is still open.
        try self.create()
        try self.finish(old)
        try self.measure()
        return try self.makeRoom(hasWebhook: hasWebhook)
    }

    private mutating func makeRoom(hasWebhook: Bool) throws(Errno) -> [Removal] {
        var removals: [Removal] = []
        var segments = try OutcomeSegment.all(in: self.folder).filter { $0 != self.open }[...]
        while self.finishedByteCount > self.limits.byteCountMax - self.limits.fileByteCountMax,
            let oldest = segments.popFirst()
        {
            let byteCount = self.byteCount(of: oldest)
            let end = (segments.first ?? self.open).firstNumber
            let start = hasWebhook ? max(oldest.firstNumber, self.position + 1) : oldest.firstNumber
            guard unsafe unlink(self.path(oldest)) == 0 || errno == ENOENT else { throw .current }
            self.finishedByteCount -= byteCount
            removals.append(Removal(name: oldest.name, unreadCount: end > start ? end - start : 0))
        }
        return removals
    }

    // MARK: The webhook's position

    /// Stores the last outcome that the webhook has accepted.
    mutating func store(position: UInt64) throws(Errno) {
        let path = "\(self.folder)/\(Self.positionName)"
        try AtomicFile.write(Self.positionBytes(position), to: path, mode: Self.fileMode, replaces: true)
        self.position = position
    }

    private static func positionBytes(_ position: UInt64) -> [UInt8] {
        var checksum = CRC64()
        let number = Array("\(position)".utf8)
        unsafe number.withUnsafeBytes { unsafe checksum.add($0) }
        return number + Array(" \(String(checksum.value, radix: 16))\n".utf8)
    }

    /// The stored position, 0 if there is none; `nil` if it is damaged.
    private static func storedPosition(_ folder: String) -> UInt64? {
        let path = "\(folder)/\(Self.positionName)"
        do throws(SmallFile.Failure) {
            let bytes = try SmallFile.read(path, .regular, byteCountMax: Self.positionByteCountMax)
            let digits = bytes.prefix { $0 != UInt8(ascii: " ") }
            guard let number = UInt64(String(decoding: digits, as: UTF8.self)), number < UInt64(Int64.max),
                Self.positionBytes(number) == bytes
            else { return nil }
            return number
        } catch .system(.noSuchFileOrDirectory) {
            return 0
        } catch {
            return nil
        }
    }
}
