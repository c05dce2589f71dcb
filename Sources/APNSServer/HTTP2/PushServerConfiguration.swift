// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import Glibc
public import OpenSSLTLS

/// Where a server of the HTTP/2 provider API listens, whom it lets in, and how it behaves.
@dynamicMemberLookup
@safe public struct PushServerConfiguration: Sendable {
    /// Where it listens, whom it lets in, and its limits; these are properties of this type, too.
    public var listener: ListenerConfiguration

    /// The keys of provider tokens, by key identifier; none by default.
    public var tokenKeys: [String: TokenKey] = [:]

    /// Which service it plays, so that certificates and keys of the other one are refused; `nil`, the default, for
    /// both.
    ///
    /// A certificate says by its extensions which service it is for; one that names neither is for both.
    public var environment: Environment?

    /// Whether a certificate is revoked, which is given with the intermediates that came with it; by default none is.
    ///
    /// It is called on event loops, for every request on a connection with a certificate.
    public var isRevoked: @Sendable (TLSCertificate, [TLSCertificate]) -> Bool = { _, _ in false }

    /// The topics that a certificate is for, the one that goes without saying first; by default the subject's UID.
    public var topics: @Sendable (TLSCertificate) -> [String] = { [$0.subjectField("UID")].compactMap(\.self) }

    /// Whether an accepted request is named once more (`apns-unique-id`), as the sandbox does; by default it is.
    public var addsUniqueIdentifier = true

    /// Whether clients that do not negotiate `h2` by ALPN are refused; by default they are let in.
    public var requiresApplicationProtocol = false

    /// How long a connection may be without anything arriving while it waits for no answer, before it is told that it
    /// goes away with the reason IdleTimeout; by default an hour.
    ///
    /// `nil` for any time.
    public var idleTimeout: Duration? = .seconds(3600)

    /// How many streams a connection may have; 1000 by default.
    public var streamCountMax = 1000

    /// Whether a connection with provider tokens has one stream until its first success; by default it has not.
    public var limitsStreamsUntilSuccess = false

    /// Whether a connection has one stream from a rejection to the next success; by default it has not.
    public var limitsStreamsAfterRejection = false

    /// The longest payload, in bytes; 4096 by default, and 5120 for the push type voip, unless this is more.
    public var payloadByteCountMax = 4096

    /// Checks that a payload is a JSON object; `nil`, the default, for not checked.
    ///
    /// One that is not is refused with `PushReason.payloadEmpty`. It is called on event loops, for every request
    /// whose payload is not too long, with bytes that must not leave the call.
    public var payloadCheck: (@Sendable (UnsafeRawBufferPointer) -> Bool)?

    /// The least time between two renewals of a key's tokens; `nil`, the default, for any.
    public var tokenRenewalIntervalMin: Duration?

    /// The time in seconds since 1970 (UTC), for provider tokens; the system's by default.
    public var clock: @Sendable () -> Int64 = { Int64(time(nil)) }

    /// A key of provider tokens.
    public struct TokenKey: Sendable {
        /// Verifies what the key signs.
        public var key: ES256PublicKey
        /// Whose it is.
        public var teamIdentifier: String
        /// The apps that it may send to, with all topics that begin with one of these and a dot, such as that of VoIP;
        /// `nil`, the default, for any.
        public var topics: Set<String>?
        /// The only service that it may be used at; `nil`, the default, for both.
        public var environment: Environment?

        /// Makes one.
        ///
        /// - Parameters:
        ///   - key: verifies what the key signs.
        ///   - teamIdentifier: whose it is.
        ///   - topics: the apps that it may send to; by default any.
        ///   - environment: the only service that it may be used at; by default both.
        public init(
            key: ES256PublicKey,
            teamIdentifier: String,
            topics: Set<String>? = nil,
            environment: Environment? = nil
        ) {
            self.key = key
            self.teamIdentifier = teamIdentifier
            self.topics = topics
            self.environment = environment
        }

        /// Whether it may send to a topic.
        func allows(_ topic: String) -> Bool {
            guard let topics = self.topics else { return true }
            return topics.contains { topic == $0 || topic.hasPrefix($0 + ".") }
        }
    }

    /// The longest topic, in bytes: more than the longest identifier of an app has with any suffix.
    private static let topicByteCountMax = 255

    /// Whether a text can be a topic: letters and digits of ASCII, hyphens, periods and underscores.
    package static func isTopic(_ text: String) -> Bool {
        (1...self.topicByteCountMax).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - identity: the server's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must lead to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.listener = ListenerConfiguration(identity: identity, clientTrust: clientTrust, port: 0)
        self.maximumVersion = .tls1_3
        self.shutdownDuration = .seconds(10)
    }

    /// What the listeners of all protocols have in common.
    public subscript<Value>(dynamicMember member: WritableKeyPath<ListenerConfiguration, Value>) -> Value {
        get { self.listener[keyPath: member] }
        set { self.listener[keyPath: member] = newValue }
    }

    func payloadByteCountMax(of type: PushType?) -> Int {
        type == .voip ? max(self.payloadByteCountMax, 5120) : self.payloadByteCountMax
    }

    /// The limit of streams that a connection begins with.
    var streamCountFirst: Int { self.limitsStreamsUntilSuccess ? 1 : self.streamCountMax }
}

extension PushServerConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol, and where it listens, in one line.
    public var description: String { "listener of HTTP/2 on \(self.listener)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
