// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
import APNSWire
import NIOCore
import NIOPosix
import NIOTLS
package import OpenSSLTLS

/// Opens a TLS connection to a service to find out whether the handshake succeeds, and what each side reports.
package struct ConnectionProbe: Sendable {
    private let endpoint: Endpoint
    private let proxy: Proxy?
    private let tls: TLSConfiguration
    private let connectTimeout: Duration
    /// Why a connection failed, and what to do.
    private let describe: @Sendable (any Error) -> String

    /// Prepares a connection; `describe` returns why it failed, and what to do.
    package init(
        endpoint: Endpoint,
        proxy: Proxy?,
        tls: TLSConfiguration,
        connectTimeout: Duration,
        describe: @escaping @Sendable (any Error) -> String
    ) {
        self.endpoint = endpoint
        self.proxy = proxy
        self.tls = tls
        self.connectTimeout = connectTimeout
        self.describe = describe
    }

    /// The result of a connection.
    fileprivate struct Result: Sendable {
        /// The result of the handshake; `nil` if it failed.
        var handshake: Handshake?
        /// The error that ended the connection early.
        var failure: (any Error)?
        /// Whether the service closed the connection.
        var isClosed = false
        /// The number of bytes that the service sent without a request.
        var byteCount = 0
        /// The first of these bytes.
        var firstBytes: [UInt8] = []

        /// The length of an HTTP/2 frame header, in bytes.
        static let frameHeadByteCount = 9

        /// Whether the service speaks HTTP/2; a server starts with a SETTINGS frame (RFC 9113, 3.4 and 6.5).
        var isHTTP2: Bool {
            let head = self.firstBytes
            return head.count == Self.frameHeadByteCount && head[0] == 0 && head[3] == 4
                && head[5...].allSatisfy { $0 == 0 }
        }
    }

    /// The result of a handshake.
    fileprivate struct Handshake: Sendable {
        var version: TLSVersion?
        var cipher: String
        var certificate: TLSCertificate?
        /// Whether the server asked for the client's certificate.
        var hasCertificateRequest: Bool
    }

    /// How long to wait after the handshake: with TLS 1.3, a service rejects a client certificate then, and Apple's
    /// gateway closed the connection without an alert.
    private static let refusalTimeout = TimeAmount.seconds(2)

    /// Connects, and reports the result in findings.
    package func findings(now: Int64, warningDayCount: Int64) async -> [CertificateFinding] {
        let result: Result
        do {
            result = try await self.result()
        } catch {
            result = Result(failure: error)
        }
        return self.findings(result, now: now, warningDayCount: warningDayCount)
    }

    private func result() async throws -> Result {
        let opener = try ConnectionOpener(
            endpoint: self.endpoint,
            role: .server,
            proxy: self.proxy,
            tls: self.tls,
            connectTimeout: self.connectTimeout,
            keepaliveDelay: nil
        )
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let ended = eventLoop.makePromise(of: Result.self)
        return try await eventLoop.flatSubmit {
            let bound = NIOLoopBound(ProbeHandler(ended, patience: Self.refusalTimeout), eventLoop: eventLoop)
            opener.open(
                on: eventLoop,
                adopt: { _ in },
                finish: { channel, tls in
                    bound.value.tls = tls
                    try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls, bound.value)
                }
            )
            .assumeIsolated().whenFailure { bound.value.finish($0) }
            return ended.futureResult
        }
        .get()
    }
}

/// The last handler of the channel: waits for the handshake, and briefly for what the service sends after it.
private final class ProbeHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var result = ConnectionProbe.Result()
    private var ended: EventLoopPromise<ConnectionProbe.Result>?
    private let patience: TimeAmount
    /// The TLS handler, once the channel has it.
    var tls: TLSHandler?

    init(_ ended: EventLoopPromise<ConnectionProbe.Result>, patience: TimeAmount) {
        self.ended = ended
        self.patience = patience
    }

    func finish(_ failure: (any Error)? = nil) {
        self.result.failure = self.result.failure ?? failure
        self.ended?.succeed(self.result)
        self.ended = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent {
            self.result.handshake = ConnectionProbe.Handshake(
                version: self.tls?.negotiatedVersion,
                cipher: self.tls?.cipherName ?? "",
                certificate: self.tls?.peerCertificate,
                hasCertificateRequest: self.tls?.hasCertificateRequest ?? false
            )
            let channel = context.channel
            context.eventLoop.assumeIsolated().scheduleTask(in: self.patience) {
                self.finish()
                channel.close(promise: nil)
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        self.result.byteCount += bytes.readableBytes
        let missingCount = ConnectionProbe.Result.frameHeadByteCount - self.result.firstBytes.count
        self.result.firstBytes += bytes.readableBytesView.prefix(missingCount)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.finish(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.result.isClosed = true
        self.finish()
        context.fireChannelInactive()
    }
}

// MARK: - Findings

extension ConnectionProbe {
    private func finding(
        _ severity: CertificateFinding.Severity,
        _ code: CertificateFinding.Code,
        _ text: String
    ) -> CertificateFinding {
        CertificateFinding(severity: severity, code: code, place: "\(self.endpoint)", text: text)
    }

    private func findings(_ result: Result, now: Int64, warningDayCount: Int64) -> [CertificateFinding] {
        guard let handshake = result.handshake else {
            let failure: any Error = result.failure ?? TLSError.closedDuringHandshake(detail: "without a reason")
            return [self.finding(for: failure)]
        }
        var findings: [CertificateFinding] = []
        if let failure = result.failure as? TLSError, failure != .truncated {
            findings.append(self.finding(for: failure))
        } else {
            findings += self.findings(after: handshake, result)
        }
        if let expiry = self.expiry(handshake, now: now, warningDayCount: warningDayCount) { findings.append(expiry) }
        guard findings.isEmpty else { return findings }
        return [self.finding(.ok, .good, self.text(of: handshake, result, now: now))]
    }

    /// Findings about unusual behavior of a service after the handshake.
    private func findings(after handshake: Handshake, _ result: Result) -> [CertificateFinding] {
        var findings: [CertificateFinding] = []
        let isIdentityUnseen = self.tls.identity != nil && !handshake.hasCertificateRequest
        if isIdentityUnseen {
            let text =
                "the server did not ask for a client certificate, so yours was not checked; check host and port"
            findings.append(self.finding(.warning, .clientCertificate, text))
        }
        guard !result.isHTTP2 else { return findings }
        if result.byteCount > 0 {
            let text =
                "the server sent \(result.byteCount.counted("byte")) without a request; if this is a feedback "
                + "service, that part of its list is lost"
            findings.append(self.finding(.warning, .connection, text))
        } else if result.failure != nil || result.isClosed, !isIdentityUnseen {
            findings.append(self.closing(isOrderly: result.failure == nil))
        }
        return findings
    }

    /// Explains why a service closes right after the handshake.
    private func closing(isOrderly: Bool) -> CertificateFinding {
        let start = "the handshake succeeded, and then the server closed the connection without an alert; "
        let advice = "check its environment and topic, whether it is revoked, and the log of the server"
        guard self.tls.identity != nil else {
            let text = start + "it probably requires a client certificate: give its FILE"
            return self.finding(.critical, .clientCertificate, text)
        }
        guard isOrderly else {
            let text = start + "it probably does not accept the client certificate: " + advice
            return self.finding(.critical, .clientCertificate, text)
        }
        let text =
            start + "a feedback service with an empty list does this, and any other that does not accept the client "
            + "certificate: " + advice
        return self.finding(.warning, .clientCertificate, text)
    }

    /// The finding that the server's certificate expires soon; `nil` if it does not.
    private func expiry(_ handshake: Handshake, now: Int64, warningDayCount: Int64) -> CertificateFinding? {
        guard let certificate = handshake.certificate else { return nil }
        let count = certificate.dayCountLeft(at: now)
        guard count < warningDayCount else { return nil }
        let end = TimeText(seconds: certificate.notAfter).text
        let text =
            "the server's certificate, of \(certificate.hostNameText) by \(certificate.issuer), expires on \(end), in "
            + "\(count.counted("day")); its owner must renew it"
        return self.finding(.warning, .expiresSoon, text)
    }

    /// Describes a connection without problems.
    private func text(of handshake: Handshake, _ result: Result, now: Int64) -> String {
        let version = handshake.version.map { "\($0)" } ?? "TLS"
        var text = "\(version), \(handshake.cipher)"
        if result.isHTTP2 { text += ", HTTP/2" }
        guard let certificate = handshake.certificate else { return text }
        text += ", certificate of \(certificate.hostNameText) by \(certificate.issuer)"
        // A service that accepts the handshake may still refuse the certificate with its first answer.
        text +=
            self.tls.identity == nil
            ? "; no client certificate was given"
            : "; the server asked for the client certificate and did not refuse it within "
                + "\(Self.refusalTimeout.nanoseconds / 1_000_000_000) s"
        return text + "; \(certificate.dayCountLeft(at: now).counted("day")) left"
    }

    private func finding(for error: any Error) -> CertificateFinding {
        let code = (error as? TLSError).map(Self.code) ?? .connection
        return self.finding(.critical, code, self.describe(error))
    }

    private static func code(_ error: TLSError) -> CertificateFinding.Code {
        switch error {
        case .certificateExpired, .certificateNotYetValid, .certificateRevoked, .certificateUnacceptable:
            .serverCertificate
        case .unknownAuthority: .untrusted
        case .wrongHost: .wrongName
        case .versionRefused, .noCommonCipher: .tlsVersion
        case .notTLS: .notTLS
        case .ownCertificateRefused, .handshakeRefused, .identityTooWeak: .clientCertificate
        default: .connection
        }
    }
}
