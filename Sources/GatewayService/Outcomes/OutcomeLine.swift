// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSJSON
import APNSSession
import APNSWire
import OpenSSLTLS
import TokenStore

/// Writes outcomes as JSON lines.
///
/// | key                 | value                                                                              |
/// |---------------------|------------------------------------------------------------------------------------|
/// | `number`            | the number of the outcome in its folder, one more than that of the outcome before  |
/// | `time`              | when the outcome was known, as in `2026-01-05T10:00:00.123Z`                       |
/// | `provider`          | the name of the provider                                                           |
/// | `topic`             | the topic of its connection                                                        |
/// | `environment`       | `production` or `sandbox`                                                          |
/// | `identifier`        | the provider's identifier; absent with command 0                                   |
/// | `token`             | lower-case hexadecimal digits, or instead                                          |
/// | `tokenDigest`       | the SHA-256 digest of the token's bytes                                            |
/// | `apnsId`            | the identifier of the requests; absent if there was none                           |
/// | `outcome`           | a name of `DeliveryOutcome.Kind`                                                   |
/// | `cause`             | a name of `DeliveryCause`                                                          |
/// | `status`            | the status of a rejection; absent otherwise                                        |
/// | `statusText`        | the name of the status; absent if it has none                                      |
/// | `reason`            | the reason of the service, or an explanation; absent if there is none              |
/// | `timestamp`         | with status 410, when the device unregistered, as the service reported it          |
/// | `failedAt`          | of a rejection without `timestamp`: when it was known, in seconds since 1970       |
/// | `possibleDuplicate` | `true`, or absent                                                                  |
/// | `checksum`          | CRC-64 of the line before its comma, in 16 hexadecimal digits                      |
struct OutcomeLineWriter {
    /// What stands for a token.
    let tokens: GatewayFile.Outcomes.Tokens
    /// The lines written since the last ``removeAll()``.
    private(set) var bytes: [UInt8] = []
    private var memory: [UInt8] = []
    /// The second of the last line, as text.
    private var second: (value: Int64, text: String) = (.min, "")

    /// The size limit of a line without its texts, in bytes.
    private static let fixedByteCountMax = 1024
    /// The maximum size of an explanation, in bytes; the rest is cut off.
    private static let reasonByteCountMax = 500

    init(tokens: GatewayFile.Outcomes.Tokens) { self.tokens = tokens }

    mutating func removeAll() { self.bytes.removeAll(keepingCapacity: true) }

    /// Writes a line.
    mutating func append(_ outcome: RecordedOutcome, number: UInt64) {
        let time = self.time(outcome.milliseconds)
        let reason = Self.reason(outcome.outcome).map { String($0.prefix(Self.reasonByteCountMax)) }
        let textByteCount = outcome.provider.utf8.count + outcome.list.topic.utf8.count + (reason?.utf8.count ?? 0)
        let room = Self.fixedByteCountMax + textByteCount * JSONWriter.escapeByteCountMax
        if self.memory.count < room { self.memory = [UInt8](repeating: 0, count: room) }
        let tokens = self.tokens
        let byteCount = unsafe self.memory.withUnsafeMutableBytes { memory in
            var writer = unsafe JSONWriter(memory)
            writer.append("{\"number\":")
            writer.append(Int(clamping: number))
            writer.append(",\"time\":")
            writer.append(quoted: time)
            writer.append(",\"provider\":")
            writer.append(quoted: outcome.provider)
            Self.append(outcome, tokens, reason, to: &writer)
            var checksum = CRC64()
            unsafe checksum.add(writer.bytes)
            writer.append(OutcomeLine.checksumStart)
            unsafe withUnsafeBytes(of: checksum.value.bigEndian) { unsafe writer.appendHexadecimal($0) }
            writer.append("\"}\n")
            return writer.byteCount
        }
        self.bytes += self.memory[..<byteCount]
    }

    private static func append(
        _ outcome: RecordedOutcome,
        _ tokens: GatewayFile.Outcomes.Tokens,
        _ reason: String?,
        to writer: inout JSONWriter
    ) {
        writer.append(",\"topic\":")
        writer.append(quoted: outcome.list.topic)
        writer.append(",\"environment\":")
        writer.append(quoted: outcome.list.environment.rawValue)
        if let identifier = outcome.identifier {
            writer.append(",\"identifier\":")
            writer.append(Int(identifier))
        }
        switch tokens {
        case .plain:
            writer.append(",\"token\":\"")
            unsafe outcome.token.withUnsafeBytes { unsafe writer.appendHexadecimal($0) }
        case .digest:
            writer.append(",\"tokenDigest\":\"")
            let digest = unsafe outcome.token.withUnsafeBytes { unsafe SHA256.digest($0) } ?? []
            unsafe digest.withUnsafeBytes { unsafe writer.appendHexadecimal($0) }
        }
        writer.append("\"")
        if let apnsID = outcome.apnsID {
            writer.append(",\"apnsId\":")
            writer.append(quoted: apnsID.description)
        }
        writer.append(",\"outcome\":\"")
        writer.append(outcome.outcome.kind.name)
        writer.append("\",\"cause\":")
        writer.append(quoted: outcome.cause.rawValue)
        if let status = outcome.outcome.rejectionStatusCode {
            writer.append(",\"status\":")
            writer.append(Int(status))
            if let name = Rejection.staticStatusText(status) {
                writer.append(",\"statusText\":\"")
                writer.append(name)
                writer.append("\"")
            }
        }
        if let reason {
            writer.append(",\"reason\":")
            writer.append(quoted: reason)
        }
        if case .rejected(let rejection) = outcome.outcome {
            if case .http2(let rejection) = rejection, let timestamp = rejection.timestampNumber {
                writer.append(",\"timestamp\":")
                writer.append(Int(clamping: timestamp))
            } else {
                writer.append(",\"failedAt\":")
                writer.append(Int(max(0, outcome.milliseconds) / 1000))
            }
        }
        if outcome.isPossibleDuplicate { writer.append(",\"possibleDuplicate\":true") }
    }

    private static func reason(_ outcome: DeliveryOutcome) -> String? {
        switch outcome {
        case .accepted, .suppressed: nil
        case .rejected(let rejection): rejection.reason?.text
        case .indeterminate(let reason), .unsent(let reason): reason?.description
        case .invalid(let reason): reason.description
        }
    }

    private mutating func time(_ milliseconds: Int64) -> String {
        let second = max(0, milliseconds) / 1000
        if second != self.second.value {
            self.second = (second, String(ISO8601Time.text(second).dropLast()))
        }
        return "\(self.second.text).\(String(max(0, milliseconds) % 1000 + 1000).dropFirst())Z"
    }
}

extension JSONWriter {
    fileprivate mutating func append(quoted text: String) {
        var text = text
        text.withUTF8 { unsafe self.appendString(UnsafeRawBufferPointer($0)) }
    }
}

/// A line that ``OutcomeLineWriter`` wrote.
struct OutcomeLine {
    static let numberStart: StaticString = "{\"number\":"
    static let checksumStart: StaticString = ",\"checksum\":\""
    /// The size of the checksum with its name, and of the end of the line.
    private static let endByteCount = checksumStart.utf8CodeUnitCount + 16 + 2

    let number: UInt64
    /// When the outcome was known, in seconds since 1970.
    let seconds: Int64

    /// Reads a line without its line feed; `nil` if it is damaged.
    init?(_ line: ArraySlice<UInt8>) {
        let start = "\(Self.numberStart)".utf8
        guard line.count > start.count + Self.endByteCount, line.starts(with: start) else { return nil }
        let end = line.suffix(Self.endByteCount)
        var checksum = CRC64()
        unsafe line.dropLast(Self.endByteCount).withUnsafeBytes { unsafe checksum.add($0) }
        let digits = String(checksum.value, radix: 16)
        let expected = "\(Self.checksumStart)" + String(repeating: "0", count: 16 - digits.count) + digits + "\"}"
        guard end.elementsEqual(expected.utf8) else { return nil }
        let rest = line.dropFirst(start.count)
        let number = rest.prefix { $0 != UInt8(ascii: ",") }
        // Both are as they were written, since the checksum is right.
        guard let number = UInt64(String(decoding: number, as: UTF8.self)) else { return nil }
        self.number = number
        let time = rest.drop { $0 != UInt8(ascii: ",") }.dropFirst(",\"time\":\"".utf8.count)
        let text = String(decoding: time.prefix(19), as: UTF8.self) + "Z"
        self.seconds = ISO8601Time(text.utf8)?.earliest ?? 0
    }
}
