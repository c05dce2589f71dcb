// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOConcurrencyHelpers

/// A segment that is being written.
///
/// What is read from the service can be read only once, so disk space for it is reserved in advance: always more than
/// can be in memory. If no more is available, ``reserve()`` fails while everything read still fits.
///
/// Its methods block, so call them on threads that may block; one call at a time may write.
final class SpoolSegment: Sendable {
    private struct Length {
        /// The number of bytes of the file that are on disk.
        var file: Int
        /// The number of bytes from the service among them.
        var content: UInt64 = 0
        /// The end of the reserved space.
        var reserved: Int
        /// Whether bytes after these are missing, so that none may follow.
        var isBroken = false
    }

    /// The number of bytes to reserve in advance, and again when half of them are used.
    ///
    /// At most a quarter of it is read but not on disk: twice what a handler collects.
    static let roomByteCount = 4 << 20

    let path: String
    private let file: SpoolFile
    private let headerByteCount: Int
    private let length: NIOLockedValueBox<Length>

    /// Creates a segment with reserved space, and waits until it is on disk.
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

    /// The number of bytes of the file that may be read.
    var durableByteCount: Int { self.length.withLockedValue(\.file) }

    /// Appends bytes, and waits until they are on disk.
    ///
    /// On failure, none of them are stored, and nothing can be appended until ``restart(with:)``.
    func append(_ bytes: UnsafeRawBufferPointer) throws(SpoolError) {
        var rest = unsafe bytes
        var length = self.length.withLockedValue { $0 }
        let start = length.file
        do throws(SpoolError) {
            guard !length.isBroken else {
                throw .inputOutput(path: self.path, action: "write", detail: "an earlier write failed")
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
            // If this fails, reading detects the truncated record.
            try? self.file.truncate(to: start)
            self.length.withLockedValue { length in
                length.reserved = start
                length.isBroken = true
            }
            throw error
        }
        self.length.withLockedValue { $0 = length }
    }

    /// Ensures that there is space for what may be in memory.
    func reserve() throws(SpoolError) {
        let length = self.length.withLockedValue { $0 }
        guard length.reserved - length.file < Self.roomByteCount / 2 else { return }
        let start = max(length.reserved, length.file)
        let end = length.file + Self.roomByteCount
        try self.file.reserve(byteCount: end - start, at: start)
        self.length.withLockedValue { $0.reserved = end }
    }

    /// Empties the segment, since its content was delivered; these bytes, an incomplete tuple, remain.
    ///
    /// A power failure during this loses at most the beginning of an incomplete tuple.
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

    /// Releases the remaining reserved space, and waits until that is on disk.
    ///
    /// - Throws: ``SpoolError``; the segment then has no record of it.
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
            throw .inputOutput(path: self.path, action: "write", detail: "cannot compute the checksum")
        }
        try self.file.write(length + checksum + digest)
        try unsafe self.file.write(bytes)
    }
}
