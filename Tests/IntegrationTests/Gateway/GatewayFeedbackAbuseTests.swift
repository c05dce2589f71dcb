// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSTestKit
import APNSTransport
import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS
import Testing

/// Goal: a single address cannot lock others out of the feedback service, regardless of the other port's limits.
@Suite(.timeLimit(.minutes(2))) struct GatewayFeedbackAbuseTests {
    /// Completes a handshake from another loopback address.
    private static func shakesHands(_ gateway: GatewayProgram, from address: String) async throws -> Bool {
        let tls = try gateway.tls(gateway.folder.provider.identity)
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let shaken = eventLoop.makePromise(of: Bool.self)
        let timer = eventLoop.scheduleTask(in: .seconds(10)) { shaken.succeed(false) }
        defer { timer.cancel() }
        let channel = try await ClientBootstrap(group: eventLoop)
            .bind(to: try SocketAddress(ipAddress: address, port: 0))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try TLSHandler.client(tls, serverName: "localhost")
                    try channel.pipeline.syncOperations.addHandlers(handler, HandshakeRecorder(shaken))
                }
            }
            .connect(host: "127.0.0.1", port: gateway.feedbackPort).get()
        channel.closeFuture.whenComplete { _ in shaken.succeed(false) }
        let isHandshakeDone = try await shaken.futureResult.get()
        channel.close(promise: nil)
        return isHandshakeDone
    }

    @Test func `apns-legacy exits with 77 if the gateway rejects its certificate`() async throws {
        let scene = try SendScene()
        try await GatewayUpstream().withGateway { gateway in
            let foreign = try CertificateAuthority(name: "Foreign").issueClient(topic: GatewayProgram.topic)
            let expired = try gateway.folder.authority.issueClient(topic: GatewayProgram.topic, validity: .expired)
            let known = try gateway.folder.authority.issueClient(topic: GatewayProgram.topic)
            for (identity, code) in [(foreign, 77), (expired, 77), (known, 0)] as [(IssuedIdentity, Int32)] {
                let arguments = [
                    "feedback", "--host", "localhost", "--port", "\(gateway.feedbackPort)", "--certificate",
                    try scene.write("client.pem", identity.pem), "--trust", gateway.folder.path("ca.pem"),
                    "--purge-list", scene.purgeList, "--allow-expired-certificate",
                ]
                for more in [[], ["--without-close-notify"]] {
                    let run = try await scene.run(arguments + more)
                    let refusal = FeedbackError.refused(Endpoint(host: "localhost", port: gateway.feedbackPort))
                    #expect(code == 0 ? run.ending.code == 0 : run.failed(code, refusal), "\(run)")
                }
            }
        }
    }

    @Test func `silent connections of one address leave room for others`() async throws {
        let limits = "{shutdown: 10s, connections: 1024, unauthenticatedPerAddress: 256}"
        try await GatewayUpstream().withGateway(limits: limits) { gateway in
            let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            var silent: [any Channel] = []
            for _ in 0..<260 {
                silent.append(try await bootstrap.connect(host: "127.0.0.1", port: gateway.feedbackPort).get())
            }
            #expect(try await Self.shakesHands(gateway, from: "127.0.0.2"))
            try await gateway.lines("connection refused", "unauthenticated connections per address", "reached, 64")
            for channel in silent { channel.close(promise: nil) }
        }
    }
}

/// Records how a handshake ended.
private final class HandshakeRecorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let shaken: EventLoopPromise<Bool>

    init(_ shaken: EventLoopPromise<Bool>) { self.shaken = shaken }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { self.shaken.succeed(true) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
