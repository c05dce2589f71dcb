// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The notifications of a chunk, packed into two columns.
///
/// `tokens` has the length of each token in one byte, and its bytes. `items` is absent if the lines are consecutive and
/// have tokens only; otherwise it has a byte of flags for each, followed by the fields that these announce.
package struct QueueChunkContents: Sendable {
    /// One notification, whose bytes are in the columns.
    private struct Entry {
        var line: UInt64
        var expiry: UInt32?
        var priority: UInt8?
        var token: Range<Int>
        var id = 0..<0
        var payload: Range<Int>?
    }

    /// The fields of a notification in `items`.
    private struct Flags: OptionSet {
        let rawValue: UInt8

        static let line = Flags(rawValue: 1)
        static let expiry = Flags(rawValue: 2)
        static let priority = Flags(rawValue: 4)
        static let id = Flags(rawValue: 8)
        static let payload = Flags(rawValue: 16)
    }

    /// The line of the input of the first notification.
    package private(set) var firstLine: UInt64 = 0
    /// The packed tokens.
    package private(set) var tokens: [UInt8] = []
    private var allItems: [UInt8] = []
    private var hasItems = false
    private var entries: [Entry] = []

    /// Creates a chunk without notifications.
    package init() {}

    /// The number of notifications.
    package var count: Int { self.entries.count }

    /// The size of the packed notifications, in bytes.
    package var byteCount: Int { self.tokens.count + self.allItems.count }

    /// The packed fields besides the tokens; `nil` if there are none.
    package var items: [UInt8]? { self.hasItems ? self.allItems : nil }

    // MARK: Packing

    /// Appends a notification; `payload` is `nil` if it is that of the batch.
    package mutating func append(
        line: UInt64,
        token: borrowing DeviceToken,
        id: some Collection<UInt8>,
        payload: (some Collection<UInt8>)?,
        expiry: UInt32?,
        priority: UInt8?
    ) {
        var flags: Flags = []
        if self.entries.isEmpty { self.firstLine = line }
        let expectedLine = self.entries.last.map { $0.line + 1 } ?? line
        let start = self.tokens.count + 1
        self.tokens.append(UInt8(token.byteCount))
        unsafe token.withUnsafeBytes { unsafe self.tokens.append(contentsOf: $0) }
        var entry = Entry(line: line, expiry: expiry, priority: priority, token: start..<self.tokens.count)
        let flagsIndex = self.allItems.count
        self.allItems.append(0)
        if line != expectedLine {
            flags.insert(.line)
            self.add(line)
        }
        if let expiry {
            flags.insert(.expiry)
            self.add(expiry)
        }
        if let priority {
            flags.insert(.priority)
            self.add(priority)
        }
        if !id.isEmpty {
            flags.insert(.id)
            entry.id = self.add(id)
        }
        if let payload {
            flags.insert(.payload)
            entry.payload = self.add(payload)
        }
        self.allItems[flagsIndex] = flags.rawValue
        if !flags.isEmpty { self.hasItems = true }
        self.entries.append(entry)
    }

    private mutating func add(_ value: some FixedWidthInteger) {
        for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
            self.allItems.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    private mutating func add(_ bytes: some Collection<UInt8>) -> Range<Int> {
        self.add(UInt32(clamping: bytes.count))
        let start = self.allItems.count
        self.allItems.append(contentsOf: bytes)
        return start..<self.allItems.count
    }

    // MARK: Unpacking

    /// Unpacks the columns of a chunk; `nil` if they do not have this number of notifications.
    package init?(count: Int, firstLine: UInt64, tokens: [UInt8], items: [UInt8]?) {
        self.firstLine = firstLine
        self.tokens = tokens
        self.allItems = items ?? []
        self.hasItems = items != nil
        guard count >= 0, count <= tokens.count else { return nil }
        self.entries.reserveCapacity(count)
        var (tokenOffset, reader) = (0, ByteReader(items ?? []))
        var line = firstLine
        for _ in 0..<count {
            guard tokenOffset < tokens.count else { return nil }
            let start = tokenOffset + 1
            tokenOffset = start + Int(tokens[tokenOffset])
            guard tokenOffset > start, tokenOffset <= tokens.count, tokenOffset - start <= WireLimits.tokenByteCountMax
            else { return nil }
            var entry = Entry(line: line, token: start..<tokenOffset)
            if items != nil { guard Self.read(&entry, &reader) else { return nil } }
            (line, _) = entry.line.addingReportingOverflow(1)
            self.entries.append(entry)
        }
        guard tokenOffset == tokens.count, reader.isAtEnd else { return nil }
    }

    private static func read(_ entry: inout Entry, _ reader: inout ByteReader) -> Bool {
        guard let flags = (reader.integer() as UInt8?).map(Flags.init) else { return false }
        if flags.contains(.line) {
            guard let line: UInt64 = reader.integer() else { return false }
            entry.line = line
        }
        if flags.contains(.expiry) {
            guard let expiry: UInt32 = reader.integer() else { return false }
            entry.expiry = expiry
        }
        if flags.contains(.priority) {
            guard let priority: UInt8 = reader.integer() else { return false }
            entry.priority = priority
        }
        if flags.contains(.id) {
            guard let id = reader.range() else { return false }
            entry.id = id
        }
        if flags.contains(.payload) {
            guard let payload = reader.range() else { return false }
            entry.payload = payload
        }
        return flags.rawValue < 32
    }

    /// The line, the expiry and the priority of a notification.
    package subscript(index: Int) -> (line: UInt64, expiry: UInt32?, priority: UInt8?) {
        let entry = self.entries[index]
        return (entry.line, entry.expiry, entry.priority)
    }

    /// The device of a notification.
    package func token(_ index: Int) -> ArraySlice<UInt8> { self.tokens[self.entries[index].token] }

    /// The JSON value that identifies a notification for the caller; empty if there is none.
    package func id(_ index: Int) -> ArraySlice<UInt8> { self.allItems[self.entries[index].id] }

    /// The payload of a notification; `nil` if it is that of the batch.
    package func payload(_ index: Int) -> ArraySlice<UInt8>? { self.entries[index].payload.map { self.allItems[$0] } }
}

/// Reads integers and lengths, which may be wrong.
private struct ByteReader {
    private let bytes: [UInt8]
    private var offset = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { self.offset == self.bytes.count }

    mutating func integer<Value: FixedWidthInteger>() -> Value? {
        let count = Value.bitWidth / 8
        guard self.bytes.count - self.offset >= count else { return nil }
        defer { self.offset += count }
        return self.bytes[self.offset..<(self.offset + count)].reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }

    /// The range of the bytes whose number comes first.
    mutating func range() -> Range<Int>? {
        guard let count: UInt32 = self.integer(), Int(count) <= self.bytes.count - self.offset else { return nil }
        defer { self.offset += Int(count) }
        return self.offset..<(self.offset + Int(count))
    }
}
