// SPDX-License-Identifier: Apache-2.0

import APNSPayload
public import APNSServer
import APNSTransport
public import APNSWire
import Glibc
public import OpenSSLTLS

/// What a simulator is made of.
public struct SimulatorConfiguration: Sendable {
    /// How many notifications are kept by default.
    public static let receivedCountMaxDefault = 100_000

    /// How many bytes of memory the notifications that are kept take by default.
    public static let receivedByteCountMaxDefault = 256 << 20

    /// How many tokens are counted one by one by default.
    public static let countedTokenCountMaxDefault = 1_000_000

    /// How many device tokens there may be by default.
    public static let deviceTokenCountMaxDefault = 250_000

    /// How many bytes ``makeTokenKey()`` makes.
    public static let tokenKeyByteCount = 32

    /// Makes a value for ``tokenKey`` that nobody else has.
    ///
    /// - Returns: 32 random bytes.
    public static func makeTokenKey() -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        return (0..<Self.tokenKeyByteCount).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    /// The binary listener; its port is 0 by default, for any that is free.
    ///
    /// Its payloads have to be JSON objects by RFC 8259, unless
    /// `payloadCheck` is set to something else; so have those of ``push``.
    public var listener: BinaryListenerConfiguration

    /// The feedback listener; its port is 0 by default, for any that is free.
    ///
    /// Whether it closes behind the list is said here, and a wrong certificate is one that is set here.
    public var feedback: FeedbackListenerConfiguration

    /// The HTTP/2 listener; its port is 0 by default, for any that is free.
    public var push: PushServerConfiguration

    /// Which service it plays; by default the sandbox.
    public var environment = Environment.sandbox

    /// The devices that are registered from the start.
    public var devices: [SimulatedDevice]

    /// How many device tokens there may be, those of removed apps and devices included; by default 250,000.
    ///
    /// Each takes about a kilobyte of memory. ``Simulator/reset()`` makes room.
    public var deviceTokenCountMax = SimulatorConfiguration.deviceTokenCountMaxDefault

    /// Whether notifications for tokens that are not registered are taken as well; by default they are refused with
    /// status 8, and over HTTP/2 with BadDeviceToken.
    ///
    /// Those of less than 32 bytes, which no real token has, are refused in either case.
    public var acceptsUnknownTokens = false

    /// The certificates that are revoked from the start, by the SHA-256 digests in hexadecimal digits; by default none.
    ///
    /// The gateway and the feedback service close their connections behind the handshake, and HTTP/2 answers
    /// BadCertificate. ``Simulator/revoke(_:)`` adds others.
    public var revokedFingerprints: Set<String> = []

    /// Verifies the certificates of providers behind the handshake, such as by revocation lists (CRL).
    ///
    /// One that does not pass is treated as revoked. By default the handshake decides alone.
    public var certificateVerifier: CertificateVerifier?

    /// How often the gateway takes connections with one certificate; `nil`, the default, for any number.
    ///
    /// More are closed behind the handshake, without a word.
    public var connectionRateLimit: RateLimit?

    /// How many requests over HTTP/2 one device token may have; `nil`, the default, for any number.
    ///
    /// More are answered with TooManyRequests.
    public var deviceRateLimit: RateLimit?

    /// How many error responses from the start on carry the identifier 0, as the service's did now and then; by default
    /// none, and `Int.max` for all.
    public var zeroIdentifierCount = 0

    /// What goes wrong at any of its listeners; by default nothing.
    public var faults: [Fault] {
        get { self.plannedFaults.map(\.fault) }
        set { self.plannedFaults = newValue.map { PlannedFault($0) } }
    }

    /// The same, and which of them are suspended.
    package var plannedFaults: [PlannedFault] = []

    /// How many of the last notifications are kept, those that were refused included; by default 100,000.
    ///
    /// When there are more, the oldest goes; so it does where they take more than ``receivedByteCountMax``.
    public var receivedCountMax = SimulatorConfiguration.receivedCountMaxDefault

    /// How many bytes of memory the notifications that are kept take, about; by default 256 MiB.
    public var receivedByteCountMax = SimulatorConfiguration.receivedByteCountMaxDefault

    /// Seals the tokens that the simulator makes: any bytes; by default 32 that nobody else has.
    ///
    /// A simulator with the same key makes the same tokens for the same devices, and knows those of the run before. A
    /// token that was sealed with another key is unknown to it.
    public var tokenKey = SimulatorConfiguration.makeTokenKey()

    /// For how many tokens notifications are counted one by one; by default a million.
    public var countedTokenCountMax = SimulatorConfiguration.countedTokenCountMaxDefault

    /// Is told of each notification that is taken, on the event loop of its connection, in order; by default nobody.
    public var onReceive: (@Sendable (ReceivedNotification) -> Void)?

    /// Is told of each notification that is taken or refused, on the event loop of its connection, before the next one
    /// of that is looked at; by default nobody.
    ///
    /// With it, or with ``onReceive``, each message of the binary protocol is recorded by itself, which costs more.
    package var onNotification: (@Sendable (ReceivedNotification) -> Void)?

    /// Is told of everything that happens, on any thread; by default nobody.
    package var onChange: (@Sendable (SimulatorChange) -> Void)?

    /// The time in milliseconds since 1970 (UTC), for what was taken and for apps that are removed; by default the
    /// system's.
    public var now: @Sendable () -> UInt64 = {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(clamping: time.tv_sec) * 1000 + UInt64(clamping: time.tv_nsec / 1_000_000)
    }

    /// Makes a configuration with the defaults.
    ///
    /// All listeners have the TLS configuration. Providers are asked for certificates in any case, which must lead to
    /// its `trust`, and HTTP/2 also speaks TLS 1.3; set ``listener``, ``feedback`` and ``push`` afterwards for what one
    /// of them does differently.
    ///
    /// - Parameters:
    ///   - tls: a server's TLS configuration, such as `TLSConfiguration.server(identity:trust:)`.
    ///   - devices: the devices that are registered from the start.
    /// - Throws: ``SimulatorError/identityMissing`` where the configuration has no certificate, as a client's may.
    public init(tls: TLSConfiguration, devices: [SimulatedDevice] = []) throws(SimulatorError) {
        guard let identity = tls.identity else { throw .identityMissing }
        self.listener = BinaryListenerConfiguration(identity: identity, clientTrust: tls.trust)
        self.listener.port = 0
        self.push = PushServerConfiguration(identity: identity, clientTrust: tls.trust)
        self.push.topics = { ProviderIdentity($0).topics }
        self.listener.payloadCheck = unsafe .custom(Self.isObject)
        unsafe self.push.payloadCheck = Self.isObject
        self.feedback = FeedbackListenerConfiguration(identity: identity, clientTrust: tls.trust)
        self.feedback.port = 0
        self.devices = devices
        self.listener.listener.setTLS(tls, identity: identity)
        self.feedback.listener.setTLS(tls, identity: identity)
        self.push.listener.setTLS(tls, identity: identity)
        self.push.maximumVersion = max(tls.maximumVersion, .tls1_3)
    }

    /// Whether a payload is one JSON object; the service does not look at what is in it.
    private static func isObject(_ payload: UnsafeRawBufferPointer) -> Bool {
        unsafe (try? Payload.check(payload, rules: PayloadRules(byteCountMax: .max, checksKnownKeys: false))) != nil
    }
}

extension SimulatorConfiguration: CustomStringConvertible, CustomReflectable {
    /// What it plays, in one line.
    public var description: String { "simulator of the \(self.environment) with \(self.devices.count) devices" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
