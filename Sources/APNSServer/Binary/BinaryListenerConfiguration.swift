// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
package import NIOCore
public import OpenSSLTLS

/// Where a binary listener listens, whom it lets in, and its limits.
public struct BinaryListenerConfiguration: Sendable {
    /// How a payload is found to be a JSON object.
    public enum PayloadCheck: Sendable {
        /// Not at all.
        case none
        /// By its first and its last byte that is no white space: braces. What is between is not looked at.
        case braces
        /// By the caller; called on event loops, for every notification, with bytes that must not leave the call.
        case custom(@Sendable (UnsafeRawBufferPointer) -> Bool)
    }

    /// The address to listen on; by default loopback.
    public var host = "127.0.0.1"

    /// The port to listen on; 0 for any that is free; by default 2195.
    public var port = 2195

    /// The gateway's certificate and key.
    public var identity: TLSIdentity

    /// The authorities that a provider's certificate must lead to; a provider without such a one is refused.
    public var clientTrust: TLSTrust

    /// Whether the backend decides about certificates that do not lead to ``clientTrust``; by default they are refused
    /// in the handshake.
    ///
    /// The backend then has to verify ``ProviderConnection/certificate``, and sessions are not resumed, so that it
    /// always has the whole chain.
    public var admitsUnverified = false

    /// The oldest TLS version that is spoken; by default 1.2.
    public var minimumVersion: TLSVersion = .tls1_2

    /// The newest TLS version that is spoken; by default 1.2, since old clients lose the error response under 1.3.
    public var maximumVersion: TLSVersion = .tls1_2

    /// The ciphers of TLS 1.2 and older, in OpenSSL's notation; by default OpenSSL's own choice.
    public var cipherList: String?

    /// What may be announced by a frame.
    public var limits = FrameLimits()

    /// What is checked before a notification is handed on.
    public var rules = GatewayRules()

    /// How a payload is found to be a JSON object; by default by its braces.
    public var payloadCheck = PayloadCheck.braces

    /// How many notifications of one connection may be without a verdict, at least 1; by default 1000.
    public var inFlightCountMax = GatewaySession.inFlightCountMaxDefault

    /// How many connections there may be; more are closed as they come.
    ///
    /// By default 1024.
    public var connectionCountMax = 1024

    /// How many connections of one address, or of one /64 network of IPv6, may be there that have not proved who they
    /// are; more are closed as they come.
    ///
    /// `nil`, the default, for a quarter of ``connectionCountMax``: so nobody keeps all others out by connecting alone.
    public var unauthenticatedCountMaxPerAddress: Int?

    /// How long a handshake may take; by default 10 seconds.
    public var handshakeTimeout = Duration.seconds(10)

    /// How long a connection may be without anything arriving; by default a day, since providers were told to keep
    /// their connections open.
    ///
    /// `nil` for any time.
    public var idleTimeout: Duration? = .seconds(86_400)

    /// How long a notification may be without a verdict; by default 5 minutes.
    ///
    /// Then its provider is told that the service shuts down, with the last one accepted, as if the backend had said
    /// so. Looked after four times in that time, so that it may take a quarter longer. `nil` for any time.
    public var verdictTimeout: Duration? = .seconds(300)

    /// How many bytes are read and thrown away behind an error response; by default 64 MiB.
    public var drainByteCountMax = GatewaySession.drainByteCountMaxDefault

    /// How long is read and thrown away behind an error response at most; by default 2 seconds.
    ///
    /// Then the connection is reset, so that the provider's next write fails: many providers never read an error
    /// response, and learn of it only so.
    public var drainDuration = Duration.seconds(2)

    /// How long nothing may arrive behind an error response before the connection is reset; by default half a second.
    public var drainIdleDuration = Duration.milliseconds(500)

    /// How long a graceful shutdown may take before connections are cut; by default 30 seconds.
    ///
    /// Where it is told to providers, what has no verdict in the first four fifths is told as not taken.
    public var shutdownDuration = Duration.seconds(30)

    /// Whether a shutdown is told to providers with status 10; by default it is.
    public var announcesShutdown = true

    /// Is called with each connection and its number, on its event loop, when its pipeline is complete: the socket,
    /// `RawCloseHandler`, `TLSHandler`, and the handler of the protocol, which is the last.
    ///
    /// A simulator adds handlers of its own; `nil`, the default, adds none.
    package var configurePipeline: (@Sendable (any Channel, _ number: UInt64) throws -> Void)?

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - identity: the gateway's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must lead to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.identity = identity
        self.clientTrust = clientTrust
    }

    var unauthenticatedCountMax: Int {
        ConnectionAdmission.unauthenticatedCountMax(self.unauthenticatedCountMaxPerAddress, of: self.connectionCountMax)
    }

    func tlsContext() throws(ServerError) -> TLSContext {
        var tls = TLSConfiguration.server(
            identity: self.identity,
            clientCertificates: .required,
            trust: self.clientTrust
        )
        tls.minimumVersion = self.minimumVersion
        tls.maximumVersion = self.maximumVersion
        tls.cipherList = self.cipherList
        tls.handshakeTimeout = self.handshakeTimeout
        tls.acceptsUnverifiedClientCertificates = self.admitsUnverified
        // What came before is to be taken, however its sender closed.
        tls.acceptsTruncation = true
        tls.resumesSessions = !self.admitsUnverified
        do { return try TLSContext(tls) } catch { throw .tls(error) }
    }
}

extension BinaryListenerConfiguration.PayloadCheck {
    /// Whether the payload of a message that begins with the first byte passes.
    func passes(_ message: UnsafeRawBufferPointer, _ layout: borrowing FrameLayout) -> Bool {
        guard layout.payloadByteCount > 0 else { return false }
        let range = layout.payloadOffset..<layout.payloadOffset + layout.payloadByteCount
        let payload = UnsafeRawBufferPointer(rebasing: message[range])
        switch self {
        case .none: return true
        case .braces: return Self.hasBraces(payload)
        case .custom(let check): return check(payload)
        }
    }

    private static func hasBraces(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let isBare = bytes.first == UInt8(ascii: "{") && bytes.last == UInt8(ascii: "}")
        return isBare || Self.hasBracesBetweenSpaces(bytes)
    }

    private static func hasBracesBetweenSpaces(_ bytes: UnsafeRawBufferPointer) -> Bool {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }
        guard let first = bytes.first(where: { !isSpace($0) }) else { return false }
        guard let last = bytes.last(where: { !isSpace($0) }) else { return false }
        return first == UInt8(ascii: "{") && last == UInt8(ascii: "}") && bytes.count > 1
    }
}
