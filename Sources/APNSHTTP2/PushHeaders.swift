// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// Writes the headers of requests, in the compressed form of HPACK.
///
/// Tokens and what is secret are never indexed; what differs with each request is indexed once, for the sake of its
/// name; the rest goes into the table, from which nothing is ever put out: when it is full, further values are written
/// out. Huffman codes are not used, since what they save is bytes, which are not scarce, and they cost time.
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

    /// The first bits of a field, and how many bits its number has in the same byte (RFC 7541, 6).
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
    private var byteCount = 0
    private var byteCountMax = PushHeaders.tableByteCountMax
    /// The size of the table that is to be told before the next headers.
    private var pendingSize: Int?
    private var common: Common?
    /// The memory of the last headers, used again: to write a field into an array costs a fraction of what it costs to
    /// write it into a byte buffer.
    private var block: [UInt8] = []

    /// The size that a table has where the service does not name a smaller one.
    static let tableByteCountMax = 4096
    /// What an entry counts beside its bytes (RFC 7541, 4.1).
    private static let entryOverhead = 32
    private static let pathPrefix = Array("/3/device/".utf8)

    init(authority: String) { self.authority = authority }

    /// Takes the size that the service allows its table; the table begins anew where that is another one than before.
    mutating func setTableByteCountMax(_ value: UInt32) {
        let size = min(Int(value), Self.tableByteCountMax)
        guard size != self.byteCountMax else { return }
        self.byteCountMax = size
        self.pendingSize = size
        self.entries = []
        self.byteCount = 0
        self.common = nil
    }

    /// Writes the frame of a request's headers.
    mutating func write(
        _ request: PushRequest,
        authorization: String?,
        stream: UInt32,
        to buffer: inout ByteBuffer
    ) {
        var block = self.block
        self.block = []
        block.removeAll(keepingCapacity: true)
        self.write(request, authorization: authorization, to: &block)
        buffer.writeFrameHeader(
            .headers,
            byteCount: block.count,
            flags: HTTP2Bytes.Flag.endHeaders,
            stream: stream
        )
        buffer.writeBytes(block)
        self.block = block
    }

    private mutating func write(_ request: PushRequest, authorization: String?, to block: inout [UInt8]) {
        self.writeSize(to: &block)
        let entryCount = self.entries.count
        let common = self.common(for: request)
        let first = block.count
        if let common { block += common.before } else { self.writePseudo(to: &block) }
        let own = block.count
        Self.writePath(request.token, to: &block)
        if let authorization {
            Self.write(Fixed.authorization, .neverIndexed, to: &block)
            Self.write(authorization, to: &block)
        }
        self.writeIdentifier(request.identifier, to: &block)
        if let expiration = request.expiration { self.writeOnce("apns-expiration", String(expiration), to: &block) }
        if let collapse = request.collapseIdentifier { self.writeOnce("apns-collapse-id", collapse, to: &block) }
        let last = block.count
        // An entry that was added since then has moved the numbers of all others.
        if let common, self.entries.count == entryCount {
            block += common.behind
        } else {
            self.writeSeldom(request, to: &block)
        }
        if common == nil, self.entries.count == entryCount {
            self.common = Common(
                topic: request.topic,
                pushType: request.pushType,
                priority: request.priority,
                entryCount: entryCount,
                before: Array(block[first..<own]),
                behind: Array(block[last...])
            )
        }
    }

    /// Tells a change of the table's size, which empties it at the other end first.
    private mutating func writeSize(to block: inout [UInt8]) {
        guard let size = self.pendingSize else { return }
        self.pendingSize = nil
        Self.write(0, .sizeUpdate, to: &block)
        if size > 0 { Self.write(size, .sizeUpdate, to: &block) }
    }

    /// What was written last, where it is the same and the numbers of the entries still hold.
    private func common(for request: PushRequest) -> Common? {
        guard let common = self.common, common.entryCount == self.entries.count, common.topic == request.topic,
            common.pushType == request.pushType, common.priority == request.priority
        else { return nil }
        return common
    }

    private mutating func writePseudo(to block: inout [UInt8]) {
        Self.write(Fixed.methodPost, .indexed, to: &block)
        Self.write(Fixed.schemeHTTPS, .indexed, to: &block)
        self.writeIndexed(":authority", self.authority, to: &block)
    }

    private mutating func writeSeldom(_ request: PushRequest, to block: inout [UInt8]) {
        if let topic = request.topic { self.writeIndexed("apns-topic", topic, to: &block) }
        if let type = request.pushType { self.writeIndexed("apns-push-type", type.rawValue, to: &block) }
        if let priority = request.priority { self.writeIndexed("apns-priority", String(priority), to: &block) }
    }

    private static func writePath(_ token: DeviceToken, to block: inout [UInt8]) {
        self.write(Fixed.path, .neverIndexed, to: &block)
        self.write(self.pathPrefix.count + 2 * token.byteCount, .plainText, to: &block)
        block += self.pathPrefix
        block.appendHexadecimal(token)
    }

    private mutating func writeIdentifier(_ identifier: PushIdentifier, to block: inout [UInt8]) {
        let name = "apns-id"
        guard let number = self.number(of: name) else {
            self.writeOnce(name, identifier.description, to: &block)
            return
        }
        Self.write(number, .notIndexed, to: &block)
        Self.write(PushIdentifier.characterCount, .plainText, to: &block)
        block.appendText(of: identifier)
    }

    // MARK: Fields

    /// By its number where the table has it, else written out and put into the table.
    private mutating func writeIndexed(_ name: String, _ value: String, to block: inout [UInt8]) {
        if let position = self.entries.lastIndex(where: { $0.name == name && $0.value == value }) {
            Self.write(self.number(position), .indexed, to: &block)
        } else {
            self.writeLiteral(name, value, isIndexed: true, to: &block)
        }
    }

    /// Put into the table where its name is not in there yet, and written out by that name from then on.
    private mutating func writeOnce(_ name: String, _ value: String, to block: inout [UInt8]) {
        self.writeLiteral(name, value, isIndexed: !self.entries.contains { $0.name == name }, to: &block)
    }

    private mutating func writeLiteral(
        _ name: String,
        _ value: String,
        isIndexed: Bool,
        to block: inout [UInt8]
    ) {
        let count = name.utf8.count + value.utf8.count + Self.entryOverhead
        let isAdded = isIndexed && self.byteCount + count <= self.byteCountMax
        let form = isAdded ? Form.indexing : .notIndexed
        if let number = self.number(of: name) {
            Self.write(number, form, to: &block)
        } else {
            Self.write(0, form, to: &block)
            Self.write(name, to: &block)
        }
        Self.write(value, to: &block)
        guard isAdded else { return }
        self.entries.append(Entry(name: name, value: value))
        self.byteCount += count
    }

    private func number(of name: String) -> Int? {
        if name == ":authority" { return Fixed.authority }
        return self.entries.lastIndex { $0.name == name }.map { self.number($0) }
    }

    /// The newest entry has the lowest number.
    private func number(_ position: Int) -> Int { Fixed.count + self.entries.count - position }

    private static func write(_ text: String, to block: inout [UInt8]) {
        self.write(text.utf8.count, .plainText, to: &block)
        block += text.utf8
    }

    /// A number behind the first bits of a field (RFC 7541, 5.1).
    private static func write(_ number: Int, _ form: Form, to block: inout [UInt8]) {
        let limit = (1 << Int(form.prefix)) - 1
        guard number >= limit else {
            block.append(form.bits | UInt8(truncatingIfNeeded: number))
            return
        }
        block.append(form.bits | UInt8(truncatingIfNeeded: limit))
        var rest = number - limit
        while rest >= 0x80 {
            block.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        block.append(UInt8(truncatingIfNeeded: rest))
    }
}
