// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOConcurrencyHelpers

/// A segment that is being written.
///
/// Its calls block on the disk, so they belong on threads that may; one call at a time writes.
final class SpoolSegment: Sendable {
    private struct Length {
        /// Octets of the file that are on the disk.
        var file: Int
        /// Octets from the service among them.
        var content: UInt64
    }

    let path: String
    private let file: SpoolFile
    private let length: NIOLockedValueBox<Length>

    /// Makes a segment, and waits until it is on the disk.
    init(path: String, _ header: SpoolHeader) throws(SpoolError) {
        self.path = path
        self.file = try SpoolFile(path: path, O_RDWR | O_CREAT | O_EXCL)
        let octets = header.octets
        self.length = NIOLockedValueBox(Length(file: octets.count, content: 0))
        try self.file.write(octets)
        try self.file.synchronize()
    }

    /// How much of the file may be read.
    var durableOctetCount: Int { self.length.withLockedValue(\.file) }

    /// Appends octets, and waits until they are on the disk.
    ///
    /// Where that fails, nothing of them is kept.
    func append(_ octets: UnsafeRawBufferPointer) throws(SpoolError) {
        var rest = octets
        var length = self.length.withLockedValue { $0 }
        let start = length.file
        do throws(SpoolError) {
            while !rest.isEmpty {
                let portion = UnsafeRawBufferPointer(rebasing: rest.prefix(SpoolFormat.recordOctetCountMax))
                try self.write(portion, at: length.content)
                try self.file.synchronize()
                length.file += SpoolFormat.recordHeaderOctetCount + portion.count
                length.content += UInt64(portion.count)
                rest = UnsafeRawBufferPointer(rebasing: rest[portion.count...])
            }
        } catch {
            // What is cut short here would be found when the segment is read, too.
            try? self.file.truncate(to: start)
            throw error
        }
        self.length.withLockedValue { $0 = length }
    }

    /// Says that nothing more comes, and waits until that is on the disk.
    func finish() throws(SpoolError) {
        let length = self.length.withLockedValue { $0 }
        try self.write(UnsafeRawBufferPointer(start: nil, count: 0), at: length.content)
        try self.file.synchronize()
        self.length.withLockedValue { $0.file += SpoolFormat.recordHeaderOctetCount }
    }

    private func write(_ octets: UnsafeRawBufferPointer, at offset: UInt64) throws(SpoolError) {
        guard let digest = SpoolDigest.of(octets, at: offset) else {
            throw .inputOutput(path: self.path, action: "write", detail: "no checksum could be computed")
        }
        try self.file.write(SpoolFormat.octets(UInt32(octets.count)) + digest)
        try self.file.write(octets)
    }
}
