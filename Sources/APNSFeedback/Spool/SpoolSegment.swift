// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOConcurrencyHelpers

/// A segment that is being written.
///
/// What is read from the service can be read only once, so room for it is taken on the disk before: there is always
/// more of it than may be in memory. Where no more is to be had, ``reserve()`` says so while all that was read still
/// fits.
///
/// Its calls block on the disk, so they belong on threads that may; one call at a time writes.
final class SpoolSegment: Sendable {
    private struct Length {
        /// Bytes of the file that are on the disk.
        var file: Int
        /// Bytes from the service among them.
        var content: UInt64 = 0
        /// Up to where room is taken.
        var reserved: Int
        /// Whether bytes are missing behind these, so that none may follow.
        var isBroken = false
    }

    /// So much room is taken ahead, in bytes, and again when half of it is used.
    ///
    /// What is read and not yet on the disk is at most a quarter of it: twice what a handler gathers.
    static let roomByteCount = 4 << 20

    let path: String
    private let file: SpoolFile
    private let headerByteCount: Int
    private let length: NIOLockedValueBox<Length>

    /// Makes a segment with room for what comes, and waits until it is on the disk.
    init(path: String, _ header: SpoolHeader) throws(SpoolError) {
        let bytes = header.bytes
        self.path = path
        self.file = try SpoolSegment.make(path, bytes)
        self.headerByteCount = bytes.count
        self.length = NIOLockedValueBox(Length(file: bytes.count, reserved: bytes.count + Self.roomByteCount))
    }

    private static func make(_ path: String, _ header: [UInt8]) throws(SpoolError) -> SpoolFile {
        let file = try SpoolFile(path: path, O_RDWR | O_CREAT | O_EXCL)
        do throws(SpoolError) {
            try file.write(header)
            try file.reserve(byteCount: Self.roomByteCount, at: header.count)
            try file.synchronize()
        } catch {
            try? SpoolNames.remove(path)
            throw error
        }
        return file
    }

    /// How much of the file may be read.
    var durableByteCount: Int { self.length.withLockedValue(\.file) }

    /// Appends bytes, and waits until they are on the disk.
    ///
    /// Where that fails, nothing of them is kept, and nothing can be appended until ``restart(with:)``.
    func append(_ bytes: UnsafeRawBufferPointer) throws(SpoolError) {
        var rest = unsafe bytes
        var length = self.length.withLockedValue { $0 }
        let start = length.file
        do throws(SpoolError) {
            guard !length.isBroken else {
                throw .inputOutput(path: self.path, action: "write", detail: "what came before could not be written")
            }
            while unsafe !rest.isEmpty {
                let portion = unsafe UnsafeRawBufferPointer(rebasing: rest.prefix(SpoolFormat.recordByteCountMax))
                try unsafe self.write(portion, at: length.content)
                try self.file.synchronize()
                length.file += SpoolFormat.recordHeaderByteCount + portion.count
                length.content += UInt64(portion.count)
                unsafe rest = UnsafeRawBufferPointer(rebasing: rest[portion.count...])
            }
        } catch {
            // What is cut short here would be found when the segment is read, too.
            try? self.file.truncate(to: start)
            self.length.withLockedValue { length in
                length.reserved = start
                length.isBroken = true
            }
            throw error
        }
        self.length.withLockedValue { $0 = length }
    }

    /// Sees to it that there is room for what may be in memory.
    func reserve() throws(SpoolError) {
        let length = self.length.withLockedValue { $0 }
        guard length.reserved - length.file < Self.roomByteCount / 2 else { return }
        let start = max(length.reserved, length.file)
        let end = length.file + Self.roomByteCount
        try self.file.reserve(byteCount: end - start, at: start)
        self.length.withLockedValue { $0.reserved = end }
    }

    /// Begins anew, as the list has what is in it; only these bytes, which are no whole tuple, go on.
    ///
    /// What is lost with the power in the midst of this is the beginning of a tuple whose rest was not there.
    func restart(with bytes: [UInt8]) throws(SpoolError) {
        self.length.withLockedValue { $0.isBroken = true }
        try self.file.truncate(to: self.headerByteCount)
        let count = self.headerByteCount
        self.length.withLockedValue { $0 = Length(file: count, reserved: count) }
        let result: Result<Void, SpoolError> = unsafe bytes.withUnsafeBytes { raw in
            do throws(SpoolError) { return unsafe .success(try self.append(raw)) } catch { return .failure(error) }
        }
        try result.get()
    }

    /// Gives back the room that is left, and waits until that is on the disk.
    ///
    /// - Parameter isEnded: whether to say that the service's list has come to its end.
    /// - Throws: ``SpoolError``; then the segment does not say so.
    func finish(isEnded: Bool = true) throws(SpoolError) {
        var length = self.length.withLockedValue { $0 }
        defer { try? self.file.truncate(to: length.file) }
        guard isEnded else { return }
        try unsafe self.write(UnsafeRawBufferPointer(start: nil, count: 0), at: length.content)
        try self.file.synchronize()
        length.file += SpoolFormat.recordHeaderByteCount
        self.length.withLockedValue { [length] in $0 = length }
    }

    private func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(SpoolError) {
        let length = SpoolFormat.bytes(UInt32(bytes.count))
        guard let digest = unsafe SpoolDigest.of(bytes, at: offset),
            let checksum = SpoolFormat.lengthChecksum(length, at: offset)
        else {
            throw .inputOutput(path: self.path, action: "write", detail: "no checksum could be computed")
        }
        try self.file.write(length + checksum + digest)
        try unsafe self.file.write(bytes)
    }
}
