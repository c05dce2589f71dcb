// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Logging
import NIOCore
import OpenSSLTLS
import TestSupport

/// A scripted service for a gateway under test, which records its requests.
final class GatewayUpstream: PushService {
    private struct Record: Sendable {
        var counts: [UInt32: Int] = [:]
        var accepted: Set<UInt32> = []
        var fingerprints: [String] = []
    }

    private let record = ObservedValue(Record())
    private let streamCountMax: Int
    private let reply: @Sendable (_ number: UInt32, InboundPush) -> PushReply?

    /// - Parameters:
    ///   - streamCountMax: the maximum number of concurrent requests.
    ///   - reply: returns the response to a request for a token; `nil` if the caller responds with the ticket.
    init(
        streamCountMax: Int = TestEffort.count(250, long: 1000),
        _ reply: @escaping @Sendable (_ number: UInt32, InboundPush) -> PushReply? = { _, _ in .accepted }
    ) {
        self.streamCountMax = streamCountMax
        self.reply = reply
    }

    /// The number of requests per token.
    var counts: [UInt32: Int] { self.record.current.counts }

    /// The tokens that received 200.
    var accepted: Set<UInt32> { self.record.current.accepted }

    /// The certificates of its clients in order, without duplicates.
    var fingerprints: [String] { self.record.current.fingerprints }

    func handle(_ request: borrowing InboundPush) -> PushReply? {
        let number = GatewayProgram.number(of: request.token)
        let reply = self.reply(number, copy request)
        self.record.change { record in
            record.counts[number, default: 0] += 1
            if reply == .accepted { record.accepted.insert(number) }
        }
        return reply
    }

    /// Accepts a request without a response.
    func accept(_ number: UInt32, _ ticket: PushTicket) {
        self.record.change { _ = $0.accepted.insert(number) }
        ticket.reply(.accepted)
    }

    /// Waits until this many tokens were requested, for at most 20 seconds, or a minute in the long run.
    func wait(count: Int) async throws {
        let limit = Duration.seconds(TestEffort.count(20, long: 60))
        try await self.record.wait(within: limit, until: { $0.counts.count >= count }) {
            Child.Failure(description: "\($0.counts.count) of \(count) tokens were asked for")
        }
    }

    /// Runs the service with the certificates of a folder, and passes its port to `body`.
    func run<Value: Sendable>(
        _ folder: GatewayProgram.Folder,
        change: (inout HTTP2ListenerConfiguration) throws -> Void = { _ in },
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let trust = TLSTrust.pem(folder.authority.certificatePEM)
        var configuration = HTTP2ListenerConfiguration(identity: folder.server.identity, clientTrust: trust)
        configuration.streamCountMax = self.streamCountMax
        configuration.topics = { certificate in
            self.record.change { record in
                guard !record.fingerprints.contains(certificate.fingerprint) else { return }
                record.fingerprints.append(certificate.fingerprint)
            }
            return [GatewayProgram.topic]
        }
        try change(&configuration)
        let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })
        return try await Listener(configuration, service: self, logger: logger).withRunning { server in
            try await body(try await server.boundAddress.port)
        }
    }

    /// Runs a gateway with this service; it is ended with SIGTERM unless `body` has done so.
    ///
    /// - Returns: how the gateway ended.
    @discardableResult
    func withGateway(
        limits: String = "{shutdown: 10s}",
        clients: String = "{authority: ca.pem}",
        _ prepare: (GatewayProgram.Folder) throws -> Void = { _ in },
        _ body: @escaping @Sendable (GatewayProgram) async throws -> Void
    ) async throws -> Child.Ending {
        let folder = try GatewayProgram.Folder()
        try prepare(folder)
        return try await self.run(folder) { port in
            try folder.configure(upstreamPort: port, limits: limits, clients: clients)
            let gateway = try await GatewayProgram(folder)
            try await body(gateway)
            return try await gateway.end()
        }
    }
}
