// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import OpenSSLTLS

/// The address, admission rules and behavior of a server of the HTTP/2 provider API.
@dynamicMemberLookup
@safe public struct HTTP2ListenerConfiguration: Sendable {
    /// The address, admission rules and limits; also available as properties of this type.
    public var listener: ListenerConfiguration

    /// The keys of provider tokens, by key identifier; by default none.
    public var tokenKeys: [String: TokenKey] = [:]

    /// The environment of the service, which refuses certificates and keys of the other one; `nil`, the default, for
    /// both.
    ///
    /// The extensions of a certificate specify its environment; one that names neither is for both.
    public var environment: PushEnvironment?

    /// Returns whether a certificate is revoked, given its intermediates; by default none is.
    ///
    /// It is called on event loops for every request on a connection with a certificate.
    public var isRevoked: @Sendable (TLSCertificate, [TLSCertificate]) -> Bool = { _, _ in false }

    /// Returns the topics of a certificate, the default topic first; by default the subject's UID.
    public var topics: @Sendable (TLSCertificate) -> [String] = { [$0.subjectField("UID")].compactMap(\.self) }

    /// Whether responses to accepted requests contain `apns-unique-id`, as in the sandbox; by default they do.
    public var addsUniqueID = true

    /// Whether clients that do not negotiate `h2` by ALPN are refused; by default they are accepted.
    public var requiresApplicationProtocol = false

    /// How long a connection without pending responses may be idle before GOAWAY with the reason IdleTimeout; by
    /// default an hour.
    ///
    /// `nil` for no limit.
    public var idleTimeout: Duration? = .seconds(3600)

    /// The maximum number of streams per connection; by default 1000.
    public var streamCountMax = 1000

    /// Whether a connection with provider tokens is limited to one stream until its first success; by default it is
    /// not.
    public var limitsStreamsUntilSuccess = false

    /// Whether a connection is limited to one stream from a rejection to the next success; by default it is not.
    public var limitsStreamsAfterRejection = false

    /// The maximum payload length in bytes; by default 4096, and at least 5120 for the push type voip.
    public var payloadByteCountMax = 4096

    /// Checks that a payload is a JSON object; `nil`, the default, for no check.
    ///
    /// A payload that fails is rejected with `PushReason.payloadEmpty`. The closure is called on event loops for every
    /// request whose payload is not too long; the bytes must not escape it.
    public var payloadCheck: (@Sendable (UnsafeRawBufferPointer) -> Bool)?

    /// Whether provider tokens with a DER signature are refused; by default they are accepted.
    ///
    /// RFC 7518 requires the 64 bytes of both integers. Clients that sign in DER, as the sample of Apple's guide does,
    /// have been served for years.
    public var requiresRawSignature = false

    /// When the keys were last used with a new token; shared with copies of this configuration.
    package let tokenRenewals = ProviderTokenRenewals()

    /// The minimum time between two renewals of a key's tokens; `nil`, the default, for none.
    public var tokenRenewalIntervalMin: Duration?

    /// Returns the time for provider tokens; by default the system's time.
    public var clock: @Sendable () -> Timestamp = { .now }

    /// A key of provider tokens.
    public struct TokenKey: Sendable {
        /// Verifies the key's signatures.
        public var key: ES256PublicKey
        /// The team of the key.
        public var teamID: String
        /// The permitted apps, including all topics that begin with one of these and a dot, such as that of VoIP;
        /// `nil`, the default, for any.
        public var topics: Set<String>?
        /// The only environment of the key; `nil`, the default, for both.
        public var environment: PushEnvironment?

        /// Creates a key.
        ///
        /// - Parameters:
        ///   - key: verifies the key's signatures.
        ///   - teamID: the team of the key.
        ///   - topics: the permitted apps; by default any.
        ///   - environment: the only environment; by default both.
        public init(
            key: ES256PublicKey,
            teamID: String,
            topics: Set<String>? = nil,
            environment: PushEnvironment? = nil
        ) {
            self.key = key
            self.teamID = teamID
            self.topics = topics
            self.environment = environment
        }

        /// Whether a connection may change between the two keys: they are of one team, and for the same apps.
        ///
        /// Apple does not document which keys are related.
        func isRelated(to other: Self) -> Bool {
            self.teamID == other.teamID && self.topics == other.topics
        }

        /// Whether the key permits a topic.
        func allows(_ topic: String) -> Bool {
            guard let topics = self.topics else { return true }
            return topics.contains { topic == $0 || topic.hasPrefix($0 + ".") }
        }
    }

    /// Whether the service of an environment has a topic: passes, whose topics begin with `pass.`, exist only in
    /// production.
    package static func has(_ topic: String, _ environment: PushEnvironment?) -> Bool {
        environment != .sandbox || !topic.hasPrefix("pass.")
    }

    /// Creates a configuration with defaults.
    ///
    /// - Parameters:
    ///   - identity: the server's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must chain to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.listener = ListenerConfiguration(identity: identity, clientTrust: clientTrust, port: 0)
        self.versionMax = .tls1_3
        self.shutdownTimeout = .seconds(10)
    }

    /// The settings that the listeners of all protocols share.
    public subscript<Value>(dynamicMember member: WritableKeyPath<ListenerConfiguration, Value>) -> Value {
        get { self.listener[keyPath: member] }
        set { self.listener[keyPath: member] = newValue }
    }

    func payloadByteCountMax(of type: PushType?) -> Int {
        type == .voip ? max(self.payloadByteCountMax, 5120) : self.payloadByteCountMax
    }

    /// The initial limit of streams of a connection.
    var streamCountFirst: Int { self.limitsStreamsUntilSuccess ? 1 : self.streamCountMax }
}

extension HTTP2ListenerConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol and the address, in one line.
    public var description: String { "listener of HTTP/2 on \(self.listener)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
