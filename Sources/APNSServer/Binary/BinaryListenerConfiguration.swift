// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
public import OpenSSLTLS

/// The address, admission rules and limits of a listener of the binary protocol.
@dynamicMemberLookup
public struct BinaryListenerConfiguration: Sendable {
    /// How a payload is verified to be a JSON object.
    @frozen
    @safe public enum PayloadCheck: Sendable {
        /// No check.
        case none
        /// Checks that the first and last non-whitespace bytes are braces, without parsing the rest.
        case braces
        /// Calls a closure on event loops; the bytes must not escape it. Its result also applies to identical payloads
        /// in directly following messages.
        case custom(@Sendable (UnsafeRawBufferPointer) -> Bool)
    }

    package static let idleTimeoutDefault = Duration.seconds(86_400)
    package static let outcomeTimeoutDefault = Duration.seconds(300)
    package static let drainTimeoutDefault = Duration.seconds(2)
    package static let drainIdleTimeoutDefault = Duration.milliseconds(500)

    /// The address, admission rules and limits; also available as properties of this type.
    public var listener: ListenerConfiguration

    /// The maximum lengths that a frame may announce.
    public var limits = FrameLimits()

    /// The checks before a notification is passed to the backend.
    public var rules = GatewayRules()

    /// How a payload is verified to be a JSON object; by default by its braces.
    public var payloadCheck = PayloadCheck.braces

    /// How many notifications of a connection may wait for an outcome, at least 1; by default 1000.
    public var inFlightCountMax = GatewaySession.inFlightCountMaxDefault

    /// How long a connection may be idle; by default a day, since providers were advised to keep connections open.
    ///
    /// `nil` for no limit.
    public var idleTimeout: Duration? = BinaryListenerConfiguration.idleTimeoutDefault

    /// How long a notification may wait for an outcome; by default 5 minutes.
    ///
    /// Then its provider receives status 10 with the last accepted notification. The time is checked four times in
    /// that period, so it may be exceeded by a quarter. `nil` for no limit.
    public var outcomeTimeout: Duration? = BinaryListenerConfiguration.outcomeTimeoutDefault

    /// How many bytes are read and discarded after an error response; by default 64 MiB.
    public var drainByteCountMax = GatewaySession.drainByteCountMaxDefault

    /// The maximum time to read and discard bytes after an error response; by default 2 seconds.
    ///
    /// Then the connection is reset, so that the provider's next write fails: many providers never read an error
    /// response, and notice it only in this way.
    public var drainTimeout = BinaryListenerConfiguration.drainTimeoutDefault

    /// How long a connection may be idle after an error response before it is reset; by default half a second.
    public var drainIdleTimeout = BinaryListenerConfiguration.drainIdleTimeoutDefault

    /// Whether providers receive status 10 at a shutdown; by default they do.
    ///
    /// Notifications without an outcome in the first four fifths of ``ListenerConfiguration/shutdownTimeout`` are
    /// reported as not accepted.
    public var announcesShutdown = true

    /// Creates a configuration with defaults.
    ///
    /// - Parameters:
    ///   - identity: the gateway's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must chain to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.listener = ListenerConfiguration(identity: identity, clientTrust: clientTrust, port: 2195)
    }

    /// The settings that the listeners of all protocols share.
    public subscript<Value>(dynamicMember member: WritableKeyPath<ListenerConfiguration, Value>) -> Value {
        get { self.listener[keyPath: member] }
        set { self.listener[keyPath: member] = newValue }
    }
}

extension BinaryListenerConfiguration.PayloadCheck {
    /// Whether the payload of the message at the start of the bytes passes the check.
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
    /// The protocol and the address, in one line.
    public var description: String { "listener of the binary protocol on \(self.listener)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
