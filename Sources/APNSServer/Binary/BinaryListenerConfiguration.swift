// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
public import OpenSSLTLS

/// Where a listener of the binary protocol listens, whom it lets in, and its limits.
@dynamicMemberLookup
public struct BinaryListenerConfiguration: Sendable {
    /// How a payload is found to be a JSON object.
    @frozen
    @safe public enum PayloadCheck: Sendable {
        /// Not at all.
        case none
        /// By its first and its last byte that is no white space: braces. What is between is not looked at.
        case braces
        /// By the caller; called on event loops, with bytes that must not leave the call. What it says of a payload
        /// also goes for the same payload in the messages right behind.
        case custom(@Sendable (UnsafeRawBufferPointer) -> Bool)
    }

    /// Where it listens, whom it lets in, and its limits; these are properties of this type, too.
    public var listener: ListenerConfiguration

    /// What may be announced by a frame.
    public var limits = FrameLimits()

    /// What is checked before a notification is handed on.
    public var rules = GatewayRules()

    /// How a payload is found to be a JSON object; by default by its braces.
    public var payloadCheck = PayloadCheck.braces

    /// How many notifications of one connection may be without an outcome, at least 1; by default 1000.
    public var inFlightCountMax = GatewaySession.inFlightCountMaxDefault

    /// How long a connection may be without anything arriving; by default a day, since providers were told to keep
    /// their connections open.
    ///
    /// `nil` for any time.
    public var idleTimeout: Duration? = .seconds(86_400)

    /// How long a notification may be without an outcome; by default 5 minutes.
    ///
    /// Then its provider is told that the service shuts down, with the last one accepted, as if the backend had said
    /// so. Looked after four times in that time, so that it may take a quarter longer. `nil` for any time.
    public var outcomeTimeout: Duration? = .seconds(300)

    /// How many bytes are read and thrown away behind an error response; by default 64 MiB.
    public var drainByteCountMax = GatewaySession.drainByteCountMaxDefault

    /// How long is read and thrown away behind an error response at most; by default 2 seconds.
    ///
    /// Then the connection is reset, so that the provider's next write fails: many providers never read an error
    /// response, and learn of it only so.
    public var drainDuration = Duration.seconds(2)

    /// How long nothing may arrive behind an error response before the connection is reset; by default half a second.
    public var drainIdleDuration = Duration.milliseconds(500)

    /// Whether a shutdown is told to providers with status 10; by default it is.
    ///
    /// What has no outcome in the first four fifths of ``ListenerConfiguration/shutdownDuration`` is told as not taken.
    public var announcesShutdown = true

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - identity: the gateway's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must lead to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.listener = ListenerConfiguration(identity: identity, clientTrust: clientTrust, port: 2195)
    }

    /// What the listeners of all protocols have in common.
    public subscript<Value>(dynamicMember member: WritableKeyPath<ListenerConfiguration, Value>) -> Value {
        get { self.listener[keyPath: member] }
        set { self.listener[keyPath: member] = newValue }
    }
}

extension BinaryListenerConfiguration.PayloadCheck {
    /// Whether the payload of a message that begins with the first byte passes.
    func passes(_ message: UnsafeRawBufferPointer, _ layout: borrowing FrameLayout) -> Bool {
        guard layout.payloadByteCount > 0 else { return false }
        let range = layout.payloadOffset..<layout.payloadOffset + layout.payloadByteCount
        let payload = unsafe UnsafeRawBufferPointer(rebasing: message[range])
        switch self {
        case .none: return true
        case .braces: return unsafe Self.hasBraces(payload)
        case .custom(let check): return unsafe check(payload)
        }
    }

    private static func hasBraces(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let isBare = unsafe bytes.first == UInt8(ascii: "{") && bytes.last == UInt8(ascii: "}")
        return unsafe isBare || Self.hasBracesBetweenSpaces(bytes)
    }

    private static func hasBracesBetweenSpaces(_ bytes: UnsafeRawBufferPointer) -> Bool {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }
        guard let first = unsafe bytes.first(where: { !isSpace($0) }) else { return false }
        guard let last = unsafe bytes.last(where: { !isSpace($0) }) else { return false }
        return first == UInt8(ascii: "{") && last == UInt8(ascii: "}") && bytes.count > 1
    }
}

extension BinaryListenerConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol, and where it listens, in one line.
    public var description: String { "listener of the binary protocol on \(self.listener)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
