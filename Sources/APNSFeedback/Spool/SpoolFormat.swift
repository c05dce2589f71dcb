// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The format of a segment, which contains what one connection to the feedback service delivered.
///
/// | bytes | field                | value                                                               |
/// |-------|----------------------|---------------------------------------------------------------------|
/// | 8     | mark                 | `APNSFBS` and the format's version, 2                               |
/// | 4     | length               | of the text, big-endian                                             |
/// | 4     | checksum             | of the length                                                       |
/// | n     | text                 | topic, environment, host and start time, each with a line feed      |
/// | 32    | checksum             | of the text                                                         |
/// | 4     | length               | of the bytes of a record, big-endian; 0 for the end of the segment  |
/// | 4     | checksum             | of the length and of the record's offset among all bytes            |
/// | 32    | checksum             | of the bytes and of their offset among all bytes                    |
/// | n     | bytes                | as received from the service                                        |
///
/// A record is written after the previous one is on disk. So a crash can truncate only the last one: its bytes end with
/// the file, before the announced length, and that length matches its checksum. After a kill, the existing bytes are as
/// received; after a power failure they may be arbitrary. Anything else that does not match its checksum was damaged.
/// The end is written when the service's list has ended, so a segment without one may end inside a tuple.
///
/// Version 1 has no checksums of lengths. There, a damaged length can be distinguished from a truncated record only in
/// a segment that has its end.
enum SpoolFormat {
    static let version: UInt8 = 2
    static let mark = Array("APNSFBS".utf8)
    static let markByteCount = 8
    static let lengthChecksumByteCount = 4
    static let recordHeaderByteCount = Self.recordHeaderByteCount(version: Self.version)

    /// The length of a record's header.
    static func recordHeaderByteCount(version: UInt8) -> Int {
        4 + Self.lengthChecksumByteCount(version: version) + SpoolDigest.byteCount
    }

    /// The length of the checksum after a length.
    static func lengthChecksumByteCount(version: UInt8) -> Int { version == 1 ? 0 : Self.lengthChecksumByteCount }

    /// The checksum after a length.
    static func lengthChecksum(_ length: some Sequence<UInt8>, at offset: UInt64) -> [UInt8]? {
        // Different from the checksum of a record with these four bytes.
        SpoolDigest.of(Array("length".utf8) + length, at: offset).map { Array($0.prefix(Self.lengthChecksumByteCount)) }
    }

    /// The maximum length of a header's text, in bytes.
    static let textByteCountMax = 4096

    /// The maximum length of a record, in bytes; no more is read at a time, whatever a file announces.
    static let recordByteCountMax = 1 << 20

    static func bytes(_ number: UInt64) -> [UInt8] { unsafe withUnsafeBytes(of: number.bigEndian) { unsafe Array($0) } }

    static func bytes(_ number: UInt32) -> [UInt8] { unsafe withUnsafeBytes(of: number.bigEndian) { unsafe Array($0) } }

    static func number(_ bytes: some Sequence<UInt8>) -> Int { bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) } }
}

/// The header of a segment.
struct SpoolHeader: Hashable, Sendable {
    var scope: TokenScope
    var host: String
    /// When the connection was opened, in seconds since 1970 (UTC).
    var startedAt: Int64

    var text: [UInt8] {
        let fields = [self.scope.topic, self.scope.environment.rawValue, self.host, String(self.startedAt)]
        let text = fields.map { $0.replacing("\n", with: " ") + "\n" }.joined()
        return Array(text.utf8.prefix(SpoolFormat.textByteCountMax))
    }

    var bytes: [UInt8] {
        let text = self.text
        let length = SpoolFormat.bytes(UInt32(text.count))
        return SpoolFormat.mark + [SpoolFormat.version] + length + (SpoolFormat.lengthChecksum(length, at: 0) ?? [])
            + text + (SpoolDigest.of(text, at: 0) ?? [])
    }

    init(scope: TokenScope, host: String, startedAt: Int64) {
        self.scope = scope
        self.host = host
        self.startedAt = startedAt
    }

    /// Parses the text of a header.
    init?(text: [UInt8]) {
        let fields = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard fields.count == 5, let environment = PushEnvironment(rawValue: String(fields[1])),
            let startedAt = Int64(fields[3])
        else { return nil }
        self.scope = TokenScope(topic: String(fields[0]), environment: environment)
        self.host = String(fields[2])
        self.startedAt = startedAt
    }
}
