// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import FileSupport
import SystemPackage
package import TokenStore

/// The tokens that were rejected in a run, in an unnamed file, since they may not fit in memory.
///
/// The batch source appends to it under its lock, and it is read after the source has finished.
package final class SendRejections: @unchecked Sendable {
    private let file: FileDescriptor
    private let folder: String
    private var bytes: [UInt8] = []
    /// The number of tokens that were rejected without the time at which the app was removed.
    package private(set) var doubtfulCount: UInt64 = 0
    /// The number of tokens.
    package private(set) var count: UInt64 = 0
    /// The number of these that an earlier run left.
    package private(set) var earlierCount: UInt64 = 0
    /// The time for these, in seconds since 1970.
    private var beganAt = Int64.max
    private var error: Errno?

    /// The number of bytes that are written at a time.
    private static let blockByteCount = 65_536
    /// The bytes before each token: 8 for the time, 1 for the length of the token.
    private static let headByteCount = 9
    private static let unknownTime: Int64 = -1
    /// In place of the time, for a token that an earlier run left without one.
    private static let earlierTime: Int64 = -2
    /// The number of tokens that are recorded in one transaction.
    private static let portionCount = 65_536

    /// Creates the file in a folder.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be created.
    package init(in folder: String) throws {
        self.folder = folder
        do throws(Errno) {
            self.file = try FileDescriptor.unnamed(in: self.folder)
        } catch {
            throw BatchFileError(.uncreatable, "cannot create a file in \(self.folder): \(error)")
        }
    }

    deinit { try? self.file.close() }

    /// Adds a token, with the time at which its app was removed, if known, in seconds since 1970 (UTC).
    ///
    /// A write error, such as a full disk, is reported by ``record(in:_:failedAt:firstSeen:)``.
    package var recorder: @Sendable (_ token: DeviceToken, _ deadSince: Int64?) -> Void {
        { token, deadSince in self.append(token, time: deadSince ?? Self.unknownTime) }
    }

    /// Adds a token that an earlier run left, with the status of its rejection.
    ///
    /// Returns a closure that adds a token.
    package func earlierRecorder(since beganAt: Int64) -> @Sendable (_ token: DeviceToken, _ status: UInt16) -> Void {
        self.beganAt = beganAt
        return { token, status in
            self.earlierCount += 1
            self.append(token, time: status == 410 ? beganAt : Self.earlierTime)
        }
    }

    private func append(_ token: DeviceToken, time: Int64) {
        self.count += 1
        if time < 0 { self.doubtfulCount += 1 }
        for shift in stride(from: 56, through: 0, by: -8) {
            self.bytes.append(UInt8(truncatingIfNeeded: time >> shift))
        }
        self.bytes.append(UInt8(truncatingIfNeeded: token.byteCount))
        self.bytes.append(contentsOf: token.bytes)
        if self.bytes.count >= Self.blockByteCount { self.flush() }
    }

    /// Adds the tokens to a purge list.
    ///
    /// Returns the changes to the list.
    ///
    /// - Throws: an error if the list cannot be written, or the tokens could not be stored.
    package func record(in list: PurgeList, _ scope: TokenScope, failedAt: Int64?, firstSeen: Int64) throws
        -> PurgeChange
    {
        self.flush()
        var change = PurgeChange()
        var portion: [PurgeEntry] = []
        try self.forEachToken { token, time in
            guard let failedAt = time >= 0 ? time : failedAt else { return }
            portion.append(
                PurgeEntry(
                    topic: scope.topic,
                    environment: scope.environment,
                    token: token,
                    failedAt: time == Self.earlierTime ? min(failedAt, self.beganAt) : failedAt,
                    firstSeen: firstSeen,
                    source: "send"
                )
            )
            guard portion.count == Self.portionCount else { return }
            change += try list.record(portion)
            portion.removeAll(keepingCapacity: true)
        }
        change += try list.record(portion)
        return change
    }

    private func flush() {
        if self.error == nil {
            do { try self.file.writeAll(self.bytes) } catch { self.error = error as? Errno ?? .ioError }
        }
        self.bytes.removeAll(keepingCapacity: true)
    }

    private func forEachToken(_ body: ([UInt8], _ time: Int64) throws -> Void) throws {
        var offset: Int64 = 0
        var block = [UInt8](repeating: 0, count: Self.blockByteCount)
        while true {
            let count: Int
            do {
                if let error = self.error { throw error }
                count = try unsafe block.withUnsafeMutableBytes {
                    try unsafe self.file.read(fromAbsoluteOffset: offset, into: $0)
                }
            } catch {
                throw BatchFileError(.unwritable, "cannot store the rejected tokens in \(self.folder): \(error)")
            }
            var first = 0
            // A token that is cut off at the end of the block is read with the next one.
            while first + Self.headByteCount <= count {
                let tokenStart = first + Self.headByteCount
                let next = tokenStart + Int(block[tokenStart - 1])
                guard next <= count else { break }
                let time = block[first..<(tokenStart - 1)].reduce(Int64(0)) { $0 << 8 | Int64($1) }
                try body(Array(block[tokenStart..<next]), time)
                first = next
            }
            guard first > 0 else { return }
            offset += Int64(first)
        }
    }
}
