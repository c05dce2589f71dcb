// SPDX-License-Identifier: Apache-2.0

import APNSPayload
public import APNSServer
import APNSTransport
public import APNSWire
public import OpenSSLTLS

/// The configuration of a simulator.
public struct SimulatorConfiguration: Sendable {
    /// The default number of notifications in the record.
    public static let receivedCountMaxDefault = 100_000

    /// The default memory limit of the record in bytes.
    public static let receivedByteCountMaxDefault = 256 << 20

    /// The default number of tokens whose notifications are counted.
    public static let countedTokenCountMaxDefault = 1_000_000

    /// The default number of device tokens.
    public static let deviceTokenCountMaxDefault = 250_000

    /// The number of bytes that ``makeTokenKey()`` returns.
    public static let tokenKeyByteCount = 32

    /// Creates a unique value for ``tokenKey``.
    ///
    /// - Returns: 32 random bytes.
    public static func makeTokenKey() -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        return (0..<Self.tokenKeyByteCount).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    /// The binary listener; its port is 0 by default, for any free port.
    ///
    /// Payloads have to be JSON objects by RFC 8259, unless `payloadCheck` is changed; so do those of ``http2``.
    public var listener: BinaryListenerConfiguration

    /// The feedback listener; its port is 0 by default, for any free port.
    ///
    /// Set here whether it closes the connection after the list, and a wrong certificate if a test needs one.
    public var feedback: FeedbackListenerConfiguration

    /// The HTTP/2 listener; its port is 0 by default, for any free port.
    public var http2: HTTP2ListenerConfiguration

    /// The environment; by default the sandbox.
    public var environment = PushEnvironment.sandbox

    /// The initial devices.
    public var devices: [SimulatedDevice]

    /// The maximum number of device tokens, including those of removed apps and devices; by default 250,000.
    ///
    /// Each uses about a kilobyte of memory. ``Simulator/reset()`` frees them.
    public var deviceTokenCountMax = SimulatorConfiguration.deviceTokenCountMaxDefault

    /// The number of broadcast channels that an app may have; by default 10,000, and 0 if broadcasts are not enabled.
    public var channelCountMax = 10_000

    /// Whether notifications for unregistered tokens are accepted; by default they are rejected with status 8, and over
    /// HTTP/2 with BadDeviceToken.
    ///
    /// Tokens of less than 32 bytes, which no real token has, are always rejected.
    public var acceptsUnknownTokens = false

    /// The initially revoked certificates, by their SHA-256 digests in hexadecimal digits; by default none.
    ///
    /// The gateway and the feedback service close their connections after the handshake, and HTTP/2 responds with
    /// BadCertificate. ``Simulator/revoke(_:)`` adds others.
    public var revokedFingerprints: Set<String> = []

    /// Verifies the certificates of providers after the handshake, for example with certificate revocation lists (CRL).
    ///
    /// A certificate that fails counts as revoked. By default only the handshake verifies certificates.
    public var certificateVerifier: CertificateVerifier?

    /// The rate limit of gateway connections per certificate; `nil`, the default, for none.
    ///
    /// Further connections are closed after the handshake, without an error response.
    public var connectionRateLimit: RateLimit?

    /// The rate limit of HTTP/2 requests per device token; `nil`, the default, for none.
    ///
    /// Further requests are rejected with TooManyRequests.
    public var deviceRateLimit: RateLimit?

    /// How many notifications for a removed app must fail before feedback lists its token; by default 1.
    ///
    /// Apple's service lists a token after repeated failures, and documents no number.
    public var feedbackFailureCountMin = 1

    /// How many error responses contain the identifier 0, as those of Apple's service sometimes did; by default none,
    /// and `Int.max` for all.
    public var zeroIdentifierCount = 0

    /// The faults; by default none.
    public var faults: [Fault] {
        get { self.plannedFaults.map(\.fault) }
        set { self.plannedFaults = newValue.map { PlannedFault($0) } }
    }

    /// The faults, and which of them are disabled.
    package var plannedFaults: [PlannedFault] = []

    /// The maximum number of notifications in the record, including rejected ones; by default 100,000.
    ///
    /// Beyond it, or beyond ``receivedByteCountMax``, the oldest one is removed.
    public var receivedCountMax = SimulatorConfiguration.receivedCountMaxDefault

    /// The approximate memory limit of the record in bytes; by default 256 MiB.
    public var receivedByteCountMax = SimulatorConfiguration.receivedByteCountMaxDefault

    /// The key that seals the simulator's tokens: any bytes; by default 32 random bytes.
    ///
    /// A simulator with the same key creates the same tokens for the same devices, and recognizes those of an earlier
    /// run. A token sealed with another key is unknown to it.
    public var tokenKey = SimulatorConfiguration.makeTokenKey()

    /// The maximum number of tokens whose notifications are counted; by default a million.
    public var countedTokenCountMax = SimulatorConfiguration.countedTokenCountMaxDefault

    /// Called with each accepted notification, on the event loop of its connection, in order; by default `nil`.
    public var onReceive: (@Sendable (ReceivedNotification) -> Void)?

    /// Called with each accepted or rejected notification, on the event loop of its connection, before the next one of
    /// the connection is processed; by default `nil`.
    ///
    /// With it, or with ``onReceive``, each message of the binary protocol is recorded individually, which is slower.
    package var onNotification: (@Sendable (ReceivedNotification) -> Void)?

    /// Called with each event, on any thread; by default `nil`.
    package var onChange: (@Sendable (SimulatorChange) -> Void)?

    /// Returns the time for notifications and removed apps; by default the system's time.
    public var now: @Sendable () -> Timestamp = { .now }

    /// The time in milliseconds since 1970 (UTC).
    var milliseconds: UInt64 { UInt64(self.now().millisecondsSince1970) }

    /// Creates a configuration with defaults.
    ///
    /// All listeners use the TLS configuration. It must require certificates of providers, which chain to its `trust`;
    /// over HTTP/2, a provider token may replace the certificate, and TLS 1.3 is supported, too. To
    /// configure a single listener, change ``listener``, ``feedback`` or ``http2`` afterwards.
    ///
    /// - Parameters:
    ///   - tls: a server's TLS configuration, such as `TLSConfiguration.server(identity:trust:)`.
    ///   - devices: the initial devices.
    /// - Throws: ``SimulatorError/identityMissing`` if the configuration has no certificate,
    ///   ``SimulatorError/clientCertificatesNotRequired``.
    public init(tls: TLSConfiguration, devices: [SimulatedDevice] = []) throws(SimulatorError) {
        guard let identity = tls.identity else { throw .identityMissing }
        guard tls.clientCertificates == .required else { throw .clientCertificatesNotRequired }
        self.listener = BinaryListenerConfiguration(identity: identity, clientTrust: tls.trust)
        self.listener.port = 0
        self.http2 = HTTP2ListenerConfiguration(identity: identity, clientTrust: tls.trust)
        self.http2.topics = { ProviderIdentity($0).topics }
        self.listener.payloadCheck = unsafe .custom(Self.isObject)
        unsafe self.http2.payloadCheck = Self.isObject
        self.feedback = FeedbackListenerConfiguration(identity: identity, clientTrust: tls.trust)
        self.feedback.port = 0
        self.devices = devices
        self.listener.listener.setTLS(tls, identity: identity)
        self.feedback.listener.setTLS(tls, identity: identity)
        self.http2.listener.setTLS(tls, identity: identity)
        self.http2.versionMax = max(tls.versionMax, .tls1_3)
    }

    /// Whether a payload is a JSON object; its content is not checked.
    private static func isObject(_ payload: UnsafeRawBufferPointer) -> Bool {
        unsafe (try? Payload.check(payload, rules: PayloadRules(byteCountMax: .max, checksKnownKeys: false))) != nil
    }
}

extension SimulatorConfiguration: CustomStringConvertible, CustomReflectable {
    /// The environment and the number of devices, in one line.
    public var description: String { "simulator of the \(self.environment) with \(self.devices.count) devices" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
