// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// Writes the headers of requests, in the compressed form of HPACK.
///
/// Tokens and what is secret are never indexed; what differs with each request is indexed once, for the sake of its
/// name; the rest goes into the table, from which nothing is ever put out: when it is full, further values are written
/// out. Huffman codes are not used, since what they save is octets, which are not scarce, and they cost time.
///
/// - SeeAlso: "Sending notification requests to APNs", on HPACK; RFC 7541.
struct PushHeaders {
    /// Numbers in the table that everybody has (RFC 7541, appendix A).
    private enum Fixed {
        static let authority = 1
        static let methodPost = 3
        static let path = 4
        static let schemeHTTPS = 7
        static let authorization = 23
        static let count = 61
    }

    /// The first bits of a field, and how many bits its number has in the same octet (RFC 7541, 6).
    private struct Form {
        var bits: UInt8
        var prefix: UInt8

        static let indexed = Form(bits: 0x80, prefix: 7)
        static let indexing = Form(bits: 0x40, prefix: 6)
        static let sizeUpdate = Form(bits: 0x20, prefix: 5)
        static let neverIndexed = Form(bits: 0x10, prefix: 4)
        static let notIndexed = Form(bits: 0x00, prefix: 4)
        static let plainText = Form(bits: 0x00, prefix: 7)
    }

    private struct Entry {
        var name: String
        var value: String
    }

    /// The headers that change seldom, as they were written last, when all of them were in the table.
    private struct Common {
        var topic: String?
        var pushType: PushType?
        var priority: UInt8?
        var entryCount: Int
        var before: [UInt8]
        var behind: [UInt8]
    }

    private let authority: String
    /// What this end has put into the other's table, the oldest first.
    private var entries: [Entry] = []
    private var octetCount = 0
    private var octetCountMax = PushHeaders.tableOctetCountMax
    /// The size of the table that is to be told before the next headers.
    private var pendingSize: Int?
    private var common: Common?

    /// The size that a table has where the service does not name a smaller one.
    static let tableOctetCountMax = 4096
    /// What an entry counts beside its octets (RFC 7541, 4.1).
    private static let entryOverhead = 32
    private static let pathPrefix = Array("/3/device/".utf8)

    init(authority: String) { self.authority = authority }

    /// Takes the size that the service allows its table; the table begins anew where that is another one than before.
    mutating func setTableOctetCountMax(_ value: UInt32) {
        let size = min(Int(value), Self.tableOctetCountMax)
        guard size != self.octetCountMax else { return }
        self.octetCountMax = size
        self.pendingSize = size
        self.entries = []
        self.octetCount = 0
        self.common = nil
    }

    /// Writes the frame of a request's headers.
    mutating func write(
        _ request: PushRequest,
        authorization: String?,
        stream: UInt32,
        to buffer: inout ByteBuffer
    ) {
        let start = buffer.writerIndex
        buffer.writeFrameHeader(.headers, octetCount: 0, flags: HTTP2Octets.Flag.endHeaders, stream: stream)
        self.writeSize(to: &buffer)
        let entryCount = self.entries.count
        let common = self.common(for: request)
        let first = buffer.writerIndex
        if let common { buffer.writeBytes(common.before) } else { self.writePseudo(to: &buffer) }
        let own = buffer.writerIndex
        Self.writePath(request.token, to: &buffer)
        if let authorization {
            Self.write(Fixed.authorization, .neverIndexed, to: &buffer)
            Self.write(authorization, to: &buffer)
        }
        self.writeIdentifier(request.identifier, to: &buffer)
        if let expiration = request.expiration { self.writeOnce("apns-expiration", String(expiration), to: &buffer) }
        if let collapse = request.collapseIdentifier { self.writeOnce("apns-collapse-id", collapse, to: &buffer) }
        let last = buffer.writerIndex
        if let common { buffer.writeBytes(common.behind) } else { self.writeSeldom(request, to: &buffer) }
        if common == nil, self.entries.count == entryCount {
            self.common = Common(
                topic: request.topic,
                pushType: request.pushType,
                priority: request.priority,
                entryCount: entryCount,
                before: buffer.getBytes(at: first, length: own - first) ?? [],
                behind: buffer.getBytes(at: last, length: buffer.writerIndex - last) ?? []
            )
        }
        let count = buffer.writerIndex - start - HTTP2Octets.frameHeaderCount
        let word = UInt32(truncatingIfNeeded: count) << 8 | UInt32(HTTP2Octets.Kind.headers.rawValue)
        buffer.setInteger(word, at: start)
    }

    /// Tells a change of the table's size, which empties it at the other end first.
    private mutating func writeSize(to buffer: inout ByteBuffer) {
        guard let size = self.pendingSize else { return }
        self.pendingSize = nil
        Self.write(0, .sizeUpdate, to: &buffer)
        if size > 0 { Self.write(size, .sizeUpdate, to: &buffer) }
    }

    /// What was written last, where it is the same and the numbers of the entries still hold.
    private func common(for request: PushRequest) -> Common? {
        guard let common = self.common, common.entryCount == self.entries.count, common.topic == request.topic,
            common.pushType == request.pushType, common.priority == request.priority
        else { return nil }
        return common
    }

    private mutating func writePseudo(to buffer: inout ByteBuffer) {
        Self.write(Fixed.methodPost, .indexed, to: &buffer)
        Self.write(Fixed.schemeHTTPS, .indexed, to: &buffer)
        self.writeIndexed(":authority", self.authority, to: &buffer)
    }

    private mutating func writeSeldom(_ request: PushRequest, to buffer: inout ByteBuffer) {
        if let topic = request.topic { self.writeIndexed("apns-topic", topic, to: &buffer) }
        if let type = request.pushType { self.writeIndexed("apns-push-type", type.rawValue, to: &buffer) }
        if let priority = request.priority { self.writeIndexed("apns-priority", String(priority), to: &buffer) }
    }

    private static func writePath(_ token: DeviceToken, to buffer: inout ByteBuffer) {
        self.write(Fixed.path, .neverIndexed, to: &buffer)
        self.write(self.pathPrefix.count + 2 * token.octetCount, .plainText, to: &buffer)
        buffer.writeBytes(self.pathPrefix)
        buffer.writeHexadecimal(token)
    }

    private mutating func writeIdentifier(_ identifier: PushIdentifier, to buffer: inout ByteBuffer) {
        let name = "apns-id"
        guard let number = self.number(of: name) else {
            self.writeOnce(name, identifier.description, to: &buffer)
            return
        }
        Self.write(number, .notIndexed, to: &buffer)
        Self.write(PushIdentifier.characterCount, .plainText, to: &buffer)
        buffer.writeText(of: identifier)
    }

    // MARK: Fields

    /// By its number where the table has it, else written out and put into the table.
    private mutating func writeIndexed(_ name: String, _ value: String, to buffer: inout ByteBuffer) {
        if let position = self.entries.lastIndex(where: { $0.name == name && $0.value == value }) {
            Self.write(self.number(position), .indexed, to: &buffer)
        } else {
            self.writeLiteral(name, value, isIndexed: true, to: &buffer)
        }
    }

    /// Put into the table where its name is not in there yet, and written out by that name from then on.
    private mutating func writeOnce(_ name: String, _ value: String, to buffer: inout ByteBuffer) {
        self.writeLiteral(name, value, isIndexed: !self.entries.contains { $0.name == name }, to: &buffer)
    }

    private mutating func writeLiteral(
        _ name: String,
        _ value: String,
        isIndexed: Bool,
        to buffer: inout ByteBuffer
    ) {
        let count = name.utf8.count + value.utf8.count + Self.entryOverhead
        let isAdded = isIndexed && self.octetCount + count <= self.octetCountMax
        let form = isAdded ? Form.indexing : .notIndexed
        if let number = self.number(of: name) {
            Self.write(number, form, to: &buffer)
        } else {
            Self.write(0, form, to: &buffer)
            Self.write(name, to: &buffer)
        }
        Self.write(value, to: &buffer)
        guard isAdded else { return }
        self.entries.append(Entry(name: name, value: value))
        self.octetCount += count
    }

    private func number(of name: String) -> Int? {
        if name == ":authority" { return Fixed.authority }
        return self.entries.lastIndex { $0.name == name }.map { self.number($0) }
    }

    /// The newest entry has the lowest number.
    private func number(_ position: Int) -> Int { Fixed.count + self.entries.count - position }

    private static func write(_ text: String, to buffer: inout ByteBuffer) {
        self.write(text.utf8.count, .plainText, to: &buffer)
        buffer.writeString(text)
    }

    /// A number behind the first bits of a field (RFC 7541, 5.1).
    private static func write(_ number: Int, _ form: Form, to buffer: inout ByteBuffer) {
        let limit = (1 << Int(form.prefix)) - 1
        guard number >= limit else {
            buffer.writeInteger(form.bits | UInt8(truncatingIfNeeded: number))
            return
        }
        buffer.writeInteger(form.bits | UInt8(truncatingIfNeeded: limit))
        var rest = number - limit
        while rest >= 0x80 {
            buffer.writeInteger(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        buffer.writeInteger(UInt8(truncatingIfNeeded: rest))
    }
}
