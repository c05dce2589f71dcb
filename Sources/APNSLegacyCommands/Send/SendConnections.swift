// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSProvider
import APNSProviderHTTP2
import APNSSession
import APNSWire
import Batch
import Logging
import NIOConcurrencyHelpers
import OpenSSLTLS

/// The connections that a command line asks for.
struct SendConnections {
    let endpoint: EndpointOptions
    let client: ClientTLSOptions
    let http2: SendHTTP2Options
    let limits: SendLimitOptions
    let version: FrameVersionOptions
    /// The app that the command line names.
    let topicName: String?
    let payloadMax: Int?
    /// Whether what was accepted has results, too.
    let writesAllResults: Bool
    /// Whether what was sent is verified soon if nothing follows, because more follows only then.
    var verifiesPauses = false
    let logger: Logger
    let emit: @Sendable (Diagnostic) -> Void
    /// Follows the connections, for the progress bar.
    let monitor = ConnectionMonitor()
    /// The failure to connect that was reported last.
    let lastFailure = NIOLockedValueBox<ConnectionFailure?>(nil)

    /// The most memory for frames without a verified outcome, in bytes, if each has a line in the results.
    private static let storeByteCountMaxWithResults = 8 << 20

    private static let verificationPause = Duration.milliseconds(20)

    /// What sends over them.
    func sender(_ tls: TLSConfiguration) throws -> BatchSender {
        switch self.http2.transport {
        case .binary: try self.binarySender(tls)
        case .http2: try self.http2Sender(tls)
        }
    }

    /// The format that lines go out in; HTTP/2 carries all of their fields.
    var frameCommand: Command {
        guard self.http2.transport == .binary else { return .items }
        return Command(rawValue: UInt8(self.version.command)) ?? .enhanced
    }

    private func http2Sender(_ tls: TLSConfiguration) throws -> BatchSender {
        let limits = self.limits
        var configuration = try self.http2.configuration(self.endpoint, self.client, tls)
        configuration.connectionCount = limits.connections
        let requestCountMax = UInt64(limits.connections * Self.requestCountMaxPerConnection)
        configuration.requestCountMax = Int(min(limits.window, requestCountMax))
        configuration.payloadByteCountMax = self.payloadByteCountMax(tls.identity)
        configuration.voipPayloadByteCountMax = configuration.payloadByteCountMax
        configuration.resendsUnknown = limits.delivery == .atLeastOnce
        configuration.connectFailureCountMax = limits.giveUpAfter
        configuration.queueTimeout = nil
        configuration.onConnectFailure = self.connectFailures()
        var options = HTTP2BatchOptions(requests: RequestRules(topic: self.topic(tls.identity)))
        if let type = self.http2.pushType { options.requests.pushType = .fixed(type) }
        options.invalidTokenRunCountMax = limits.stopAfterInvalidTokens
        options.sendCountMax = limits.giveUpAfter
        options.drainTimeout = self.http2.answerTimeout.duration
        return try BatchSender(http2: configuration, options, monitor: self.monitor, logger: self.logger)
    }

    /// Requests without an outcome for each connection: more than it has streams, so that it never runs dry.
    private static let requestCountMaxPerConnection = 2000

    /// The app that requests are for.
    func topic(_ identity: TLSIdentity?) -> String? {
        self.topicName ?? identity.flatMap { ProviderIdentity($0.certificate).topic }
    }

    /// The topic of all notifications over the binary protocol, which has no push type; `nil` if it is not known.
    func fixedTopic(_ identity: TLSIdentity?) -> FixedTopic? {
        guard self.http2.transport == .binary else { return nil }
        return (identity.flatMap { ProviderIdentity($0.certificate).topic } ?? self.topicName)
            .map { FixedTopic($0) }
    }

    /// Which fields of requests the lines may have.
    ///
    /// With a certificate, the topic of a line must be one of its topics; with a purge list, one of those whose dead
    /// tokens are looked up.
    func requestFields(_ identity: TLSIdentity?, hasPurgeList: Bool) -> RequestFieldRules {
        let ofCertificate = identity.map { ProviderIdentity($0.certificate).topics } ?? []
        guard self.http2.transport == .http2 else {
            return .without(.binary, topic: ofCertificate.first ?? self.topicName)
        }
        if hasPurgeList, let topicName { return .http2(topics: [topicName]) }
        return .http2(topics: ofCertificate)
    }

    func payloadByteCountMax(_ identity: TLSIdentity?) -> Int {
        if let byteCount = self.payloadMax { return byteCount }
        guard self.http2.transport == .http2 else { return WireLimits.payloadByteCountMax }
        let type = self.http2.pushType ?? self.topic(identity).flatMap { TopicFamily(of: $0)?.pushType }
        return type == .voip ? WireLimits.payloadByteCountMaxVoIP : WireLimits.payloadByteCountMaxHTTP2
    }

    /// Reports connections that fail, and a failure that comes again and again only once.
    private func connectFailures() -> @Sendable (ConnectionFailure) -> Void {
        let mayRetry = self.limits.giveUpAfter > 1
        return { failure in
            guard mayRetry, !failure.isPermanent else { return }
            let isNew = self.lastFailure.withLockedValue { last in
                defer { last = failure }
                return last != failure
            }
            if isNew { self.emit(Diagnostic(.warning, failure, to: self.address(of: failure)).about("Retrying")) }
        }
    }

    /// The address whose connection failed; before a tunnel is open, that of the proxy.
    func address(of failure: ConnectionFailure) -> Endpoint? {
        switch failure.kind {
        case .proxy, .proxyAuthentication, .nameNotResolved, .refused, .unreachable, .timedOut, .localLimit:
            if let proxy = try? self.client.connection.proxyValue { return proxy.endpoint }
        default: break
        }
        return self.endpoint.named(self.http2.transport == .binary ? .gateway : .http2)
    }

    private func binarySender(_ tls: TLSConfiguration) throws -> BatchSender {
        let endpoint = try self.endpoint.endpoint(.gateway, self.client)
        var configuration = BinaryConfiguration(endpoint: endpoint, tls: tls)
        configuration.command = self.frameCommand
        configuration.connectionCount = self.limits.connections
        configuration.limits.policy = self.limits.delivery
        configuration.limits.windowCount = self.limits.window
        configuration.limits.invalidTokenRunCountMax = self.limits.stopAfterInvalidTokens
        configuration.limits.fruitlessConnectionCountMax = self.limits.giveUpAfter
        configuration.payloadByteCountMax = self.payloadByteCountMax(tls.identity)
        if self.verifiesPauses { configuration.limits.verificationPause = Self.verificationPause }
        // The results of what is verified at a time are in memory together, however slow the disk.
        if self.writesAllResults { configuration.storeByteCountMax = Self.storeByteCountMaxWithResults }
        configuration.proxy = try self.client.connection.proxyValue
        return try BatchSender(
            configuration,
            monitor: self.monitor,
            logger: self.logger,
            onFailure: self.connectFailures()
        )
    }
}
