// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The notifications of a chunk, packed into two columns.
///
/// `tokens` has the length of each token in one byte, and its bytes. `items` is absent if the lines are consecutive and
/// have tokens only; otherwise it has for each notification the flags of the fields that it has, its line, expiry and
/// priority, and the lengths and the bytes of its identifier and payload.
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

    private static let (expiryFlag, priorityFlag, payloadFlag): (UInt8, UInt8, UInt8) = (1, 2, 4)

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
        if self.entries.isEmpty { self.firstLine = line }
        let isNext = self.entries.last.map { $0.line + 1 == line } ?? true
        let start = self.tokens.count + 1
        self.tokens.append(UInt8(token.byteCount))
        unsafe token.withUnsafeBytes { unsafe self.tokens.append(contentsOf: $0) }
        var entry = Entry(line: line, expiry: expiry, priority: priority, token: start..<self.tokens.count)
        let flags = [expiry.map { _ in Self.expiryFlag }, priority.map { _ in Self.priorityFlag }]
        self.allItems.append(flags.reduce(payload == nil ? 0 : Self.payloadFlag) { $0 | ($1 ?? 0) })
        self.add(line)
        self.add(expiry ?? 0)
        self.add(priority ?? 0)
        entry.id = self.add(id)
        if let payload { entry.payload = self.add(payload) }
        if !isNext || expiry != nil || priority != nil || !id.isEmpty || payload != nil { self.hasItems = true }
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
        guard count >= 0, count <= tokens.count else { return nil }
        (self.firstLine, self.tokens) = (firstLine, tokens)
        (self.allItems, self.hasItems) = (items ?? [], items != nil)
        self.entries.reserveCapacity(count)
        var (tokenOffset, offset) = (0, 0)
        for index in 0..<count {
            guard tokenOffset < tokens.count else { return nil }
            let start = tokenOffset + 1
            tokenOffset = start + Int(tokens[tokenOffset])
            guard tokenOffset <= tokens.count, (1...WireLimits.tokenByteCountMax).contains(tokenOffset - start) else {
                return nil
            }
            var entry = Entry(line: firstLine &+ UInt64(index), token: start..<tokenOffset)
            if self.hasItems, !self.read(&entry, &offset) { return nil }
            self.entries.append(entry)
        }
        guard tokenOffset == tokens.count, offset == self.allItems.count else { return nil }
    }

    private func read(_ entry: inout Entry, _ offset: inout Int) -> Bool {
        guard let flags: UInt8 = self.integer(&offset), let line: UInt64 = self.integer(&offset),
            let expiry: UInt32 = self.integer(&offset), let priority: UInt8 = self.integer(&offset),
            let id = self.range(&offset)
        else { return false }
        (entry.line, entry.id) = (line, id)
        entry.expiry = flags & Self.expiryFlag != 0 ? expiry : nil
        entry.priority = flags & Self.priorityFlag != 0 ? priority : nil
        guard flags & Self.payloadFlag != 0 else { return true }
        entry.payload = self.range(&offset)
        return entry.payload != nil
    }

    private func integer<Value: FixedWidthInteger>(_ offset: inout Int) -> Value? {
        let count = Value.bitWidth / 8
        guard self.allItems.count - offset >= count else { return nil }
        defer { offset += count }
        return self.allItems[offset..<(offset + count)].reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }

    /// The range of the bytes whose number comes first.
    private func range(_ offset: inout Int) -> Range<Int>? {
        guard let count: UInt32 = self.integer(&offset), Int(count) <= self.allItems.count - offset else { return nil }
        defer { offset += Int(count) }
        return offset..<(offset + Int(count))
    }
}
