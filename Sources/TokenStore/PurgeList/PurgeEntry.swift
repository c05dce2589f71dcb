// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// One dead token: a device that no longer has the app.
///
/// Times are whole seconds since 1970 UTC.
public struct PurgeEntry: Hashable, Sendable {
    /// The app's bundle identifier, or another topic of its certificate; 1 to 255 bytes of UTF-8.
    public var topic: String
    /// Where the token is from.
    public var environment: Environment
    /// The token, 1 to 100 bytes.
    public var token: [UInt8]
    /// When the token was last found dead.
    public var failedAt: Int64
    /// When the list first heard of it.
    public var firstSeen: Int64
    /// Who said so: `feedback`, `send`, `http2:Unregistered`, `import:FILE`; 1 to 255 bytes of UTF-8.
    public var source: String

    /// Makes an entry.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle identifier.
    ///   - environment: where the token is from.
    ///   - token: 1 to 100 bytes.
    ///   - failedAt: when the token was last found dead.
    ///   - firstSeen: when the list first heard of it, thus now for news.
    ///   - source: who said so.
    public init(
        topic: String,
        environment: Environment,
        token: [UInt8],
        failedAt: Int64,
        firstSeen: Int64,
        source: String
    ) {
        self.topic = topic
        self.environment = environment
        self.token = token
        self.failedAt = failedAt
        self.firstSeen = firstSeen
        self.source = source
    }
}

extension PurgeEntry: CustomStringConvertible, CustomReflectable {
    /// All but the token, which is private data.
    public var description: String {
        "\(self.token.count) bytes of token, \(self.topic), \(self.environment.rawValue), failed at \(self.failedAt), "
            + "first seen \(self.firstSeen), \(self.source)"
    }

    /// Nothing of the token, so that `dump` and test reports do not show it.
    public var customMirror: Mirror { Mirror(self, children: ["description": self.description]) }
}

extension PurgeEntry {
    /// What keeps the list from taking it, if anything.
    package func check() throws(PurgeListError) {
        try Self.check(self.topic, field: "topic")
        try Self.check(self.source, field: "source")
        try self.checkValues()
    }

    /// The same but for the names, of which there are few, so that a list checks each once.
    func checkValues() throws(PurgeListError) {
        guard (1...PurgeLimits.tokenByteCountMax).contains(self.token.count) else {
            throw .tokenByteCount(self.token.count)
        }
        guard PurgeLimits.times.contains(self.failedAt) else { throw .time(field: "failedAt", self.failedAt) }
        guard PurgeLimits.times.contains(self.firstSeen) else { throw .time(field: "firstSeen", self.firstSeen) }
    }

    static func check(_ name: String, field: String) throws(PurgeListError) {
        guard (1...PurgeLimits.nameByteCountMax).contains(name.utf8.count) else {
            throw .nameByteCount(field: field, name.utf8.count)
        }
        // An end of line in a name would break the lines of exports.
        guard !name.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { throw .controlCharacter(field: field) }
    }
}
