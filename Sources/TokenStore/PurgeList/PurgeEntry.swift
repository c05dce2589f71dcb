// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A dead token: the app is no longer on the device.
///
/// Times are whole seconds.
public struct PurgeEntry: Hashable, Sendable {
    /// The app's bundle identifier, or another topic of its certificate; 1 to 255 bytes of UTF-8.
    public var topic: String
    /// The environment of the token.
    public var environment: PushEnvironment
    /// The token, 1 to 100 bytes.
    public var token: [UInt8]
    /// ``failedAt`` in seconds since 1970 (UTC), which may be outside of the valid times.
    package var failedAtSeconds: Int64
    /// ``firstSeen`` in seconds since 1970 (UTC), which may be outside of the valid times.
    package var firstSeenSeconds: Int64
    /// The source: `feedback`, `send`, `http2:Unregistered`, `import:FILE`; 1 to 255 bytes of UTF-8.
    public var source: String

    /// When the token was last found dead; parts of a second are omitted.
    public var failedAt: Timestamp {
        get { Timestamp(secondsSince1970: self.failedAtSeconds) }
        set { self.failedAtSeconds = newValue.secondsSince1970 }
    }

    /// When the list first received it; parts of a second are omitted.
    public var firstSeen: Timestamp {
        get { Timestamp(secondsSince1970: self.firstSeenSeconds) }
        set { self.firstSeenSeconds = newValue.secondsSince1970 }
    }

    /// Creates an entry.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle identifier.
    ///   - environment: the environment of the token.
    ///   - token: 1 to 100 bytes.
    ///   - failedAt: when the token was last found dead.
    ///   - firstSeen: when the list first received it; for a new entry, the current time.
    ///   - source: the source.
    public init(
        topic: String,
        environment: PushEnvironment,
        token: [UInt8],
        failedAt: Timestamp,
        firstSeen: Timestamp,
        source: String
    ) {
        self.init(
            topic: topic,
            environment: environment,
            token: token,
            failedAt: failedAt.secondsSince1970,
            firstSeen: firstSeen.secondsSince1970,
            source: source
        )
    }

    /// Creates an entry from seconds since 1970 (UTC), which ``check()`` validates.
    package init(
        topic: String,
        environment: PushEnvironment,
        token: [UInt8],
        failedAt: Int64,
        firstSeen: Int64,
        source: String
    ) {
        self.topic = topic
        self.environment = environment
        self.token = token
        self.failedAtSeconds = failedAt
        self.firstSeenSeconds = firstSeen
        self.source = source
    }
}

extension PurgeEntry: CustomStringConvertible, CustomReflectable {
    /// Everything but the token, which is private data.
    public var description: String {
        "\(self.token.count) bytes of token, \(self.topic), \(self.environment.rawValue), failed at "
            + "\(self.failedAtSeconds), first seen \(self.firstSeenSeconds), \(self.source)"
    }

    /// Without the token, so that `dump` and test reports do not show it.
    public var customMirror: Mirror { Mirror(self, children: ["description": self.description]) }
}

extension PurgeEntry {
    /// Validates the entry.
    package func check() throws(PurgeListError) {
        try Self.check(self.topic, field: "topic")
        try Self.check(self.source, field: "source")
        try self.checkValues()
    }

    /// Validates everything but the names, of which a list checks each only once.
    func checkValues() throws(PurgeListError) {
        guard (1...PurgeLimits.tokenByteCountMax).contains(self.token.count) else {
            throw .tokenByteCount(self.token.count)
        }
        let (failedAt, firstSeen) = (self.failedAtSeconds, self.firstSeenSeconds)
        guard PurgeLimits.times.contains(failedAt) else { throw .time(field: "failedAt", failedAt) }
        guard PurgeLimits.times.contains(firstSeen) else { throw .time(field: "firstSeen", firstSeen) }
    }

    static func check(_ name: String, field: String) throws(PurgeListError) {
        guard (1...PurgeLimits.nameByteCountMax).contains(name.utf8.count) else {
            throw .nameByteCount(field: field, name.utf8.count)
        }
        // A line break in a name would break the lines of exports.
        guard !name.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { throw .controlCharacter(field: field) }
    }
}
