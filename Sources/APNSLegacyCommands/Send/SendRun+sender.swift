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

extension SendRun {
    /// The connections that the command line asks for.
    func sender(_ tls: TLSConfiguration) throws -> BatchSender {
        switch self.command.http2.transport {
        case .binary: try self.binarySender(tls)
        case .http2: try self.http2Sender(tls)
        }
    }

    /// The format that lines go out in; HTTP/2 carries all of their fields.
    var frameCommand: Command {
        guard self.command.http2.transport == .binary else { return .items }
        return Command(rawValue: UInt8(self.command.batch.command)) ?? .enhanced
    }

    private var logger: Logger { self.environment.logger(isVerbose: self.command.verbose) }

    private func http2Sender(_ tls: TLSConfiguration) throws -> BatchSender {
        let (command, delivery) = (self.command, self.command.delivery)
        var configuration = try command.http2.configuration(command.endpoint, command.client, tls)
        configuration.connectionCount = delivery.connections
        let requestCountMax = UInt64(delivery.connections * SendRun.requestCountMaxPerConnection)
        configuration.requestCountMax = Int(min(delivery.window, requestCountMax))
        configuration.payloadByteCountMax = self.payloadByteCountMax(tls.identity)
        configuration.voipPayloadByteCountMax = configuration.payloadByteCountMax
        configuration.resendsUnknown = delivery.delivery == .atLeastOnce
        configuration.connectFailureCountMax = delivery.giveUpAfter
        configuration.queueTimeout = nil
        configuration.onConnectFailure = self.connectFailures()
        var options = HTTP2BatchOptions(requests: RequestRules(topic: self.topic(tls.identity)))
        if let type = command.http2.pushType { options.requests.pushType = .fixed(type) }
        options.invalidTokenRunCountMax = delivery.stopAfterInvalidTokens
        options.sendCountMax = delivery.giveUpAfter
        options.drainTimeout = command.http2.answerTimeout.duration
        return try BatchSender(http2: configuration, options, monitor: self.monitor, logger: self.logger)
    }

    /// Requests without an outcome for each connection: more than it has streams, so that it never runs dry.
    private static let requestCountMaxPerConnection = 2000

    /// The app that requests are for.
    private func topic(_ identity: TLSIdentity?) -> String? {
        self.command.batch.topic ?? identity.flatMap { ProviderIdentity($0.certificate).topic }
    }

    /// The topic of all notifications over the binary protocol, which has no push type; `nil` if it is not known.
    func fixedTopic(_ identity: TLSIdentity?) -> FixedTopic? {
        guard self.command.http2.transport == .binary else { return nil }
        return (identity.flatMap { ProviderIdentity($0.certificate).topic } ?? self.command.batch.topic)
            .map { FixedTopic($0) }
    }

    func payloadByteCountMax(_ identity: TLSIdentity?) -> Int {
        if let byteCount = self.command.batch.payloadMax { return byteCount }
        guard self.command.http2.transport == .http2 else { return WireLimits.payloadByteCountMax }
        let type = self.command.http2.pushType ?? self.topic(identity).flatMap { TopicFamily(of: $0)?.pushType }
        return type == .voip ? WireLimits.payloadByteCountMaxVoIP : WireLimits.payloadByteCountMaxHTTP2
    }

    /// Reports connections that fail, and a failure that comes again and again only once.
    private func connectFailures() -> @Sendable (ConnectionFailure) -> Void {
        let mayRetry = self.command.delivery.giveUpAfter > 1
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
        let endpoint = self.command.endpoint
        switch failure.kind {
        case .proxy, .proxyAuthentication, .nameNotResolved, .refused, .unreachable, .timedOut, .localLimit:
            if let proxy = try? self.command.client.connection.proxyValue { return proxy.endpoint }
        default: break
        }
        return endpoint.named(self.command.http2.transport == .binary ? .gateway : .http2)
    }

    private func binarySender(_ tls: TLSConfiguration) throws -> BatchSender {
        let (command, client) = (self.command, self.command.client)
        var configuration = BinaryConfiguration(endpoint: try command.endpoint.endpoint(.gateway, client), tls: tls)
        configuration.command = self.frameCommand
        configuration.connectionCount = self.command.delivery.connections
        configuration.limits.policy = self.command.delivery.delivery
        configuration.limits.windowCount = self.command.delivery.window
        configuration.limits.invalidTokenRunCountMax = self.command.delivery.stopAfterInvalidTokens
        configuration.limits.fruitlessConnectionCountMax = self.command.delivery.giveUpAfter
        configuration.payloadByteCountMax = self.payloadByteCountMax(tls.identity)
        // The results of what is verified at a time are in memory together, however slow the disk.
        if self.writesAllResults { configuration.storeByteCountMax = SendRun.storeByteCountMaxWithResults }
        configuration.proxy = try client.connection.proxyValue
        return try BatchSender(
            configuration,
            monitor: self.monitor,
            logger: self.logger,
            onFailure: self.connectFailures()
        )
    }
}
