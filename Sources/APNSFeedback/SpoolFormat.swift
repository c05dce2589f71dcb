// SPDX-License-Identifier: Apache-2.0

import PurgeList

/// The octets of a segment: what one connection to the feedback service delivered.
///
/// | octets | field                | value                                                              |
/// |--------|----------------------|--------------------------------------------------------------------|
/// | 8      | mark                 | `APNSFBS` and the format's version, 1                              |
/// | 4      | length               | of the text, big-endian                                            |
/// | n      | text                 | topic, environment, host and start time, each with a line feed     |
/// | 32     | checksum             | of the text                                                        |
/// | 4      | length               | of the octets of a record, big-endian; 0 for the end of the segment |
/// | 32     | checksum             | of the octets and of their offset among all octets                 |
/// | n      | octets               | as they came from the service                                      |
///
/// A record is written when the one before it is on the disk. So only the last can be cut short by a crash, and
/// whatever else does not agree with its checksum was damaged later. Of one that was cut short, what is there is as it
/// came where a kill cut it; where the power failed it may be anything.
enum SpoolFormat {
    static let version: UInt8 = 1
    static let mark = Array("APNSFBS".utf8)
    static let markOctetCount = 8
    static let recordHeaderOctetCount = 4 + SpoolDigest.octetCount

    /// The longest text of a header, in octets.
    static let textOctetCountMax = 4096

    /// The longest record, in octets; more is never read at a time, whatever a file announces.
    static let recordOctetCountMax = 1 << 20

    static func octets(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    static func octets(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    static func number(_ octets: some Sequence<UInt8>) -> Int { octets.prefix(4).reduce(0) { $0 << 8 | Int($1) } }
}

/// What a segment says of itself.
struct SpoolHeader: Hashable, Sendable {
    var scope: PurgeScope
    var host: String
    /// When the connection began, in seconds since 1970 (UTC).
    var startedAt: Int64

    var octets: [UInt8] {
        let fields = [self.scope.topic, self.scope.environment.rawValue, self.host, String(self.startedAt)]
        let text = Array(fields.map { $0.replacing("\n", with: " ") + "\n" }.joined().utf8)
            .prefix(SpoolFormat.textOctetCountMax)
        return SpoolFormat.mark + [SpoolFormat.version] + SpoolFormat.octets(UInt32(text.count)) + text
            + (SpoolDigest.of(Array(text), at: 0) ?? [])
    }

    init(scope: PurgeScope, host: String, startedAt: Int64) {
        self.scope = scope
        self.host = host
        self.startedAt = startedAt
    }

    /// Reads the text of a header.
    init?(text: [UInt8]) {
        let fields = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard fields.count == 5, let environment = PushEnvironment(rawValue: String(fields[1])),
            let startedAt = Int64(fields[3])
        else { return nil }
        self.scope = PurgeScope(topic: String(fields[0]), environment: environment)
        self.host = String(fields[2])
        self.startedAt = startedAt
    }
}
