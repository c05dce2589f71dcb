// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS

/// A TLS server that sends some bytes and closes.
enum ByteServer {
    private final class Speaker: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let bytes: [UInt8]

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard case .handshakeCompleted = event as? TLSUserEvent else { return }
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: self.bytes)), promise: nil)
            context.close(promise: nil)
        }
    }

    static func withRunning(
        tls: TLSConfiguration,
        _ bytes: [UInt8],
        _ body: (_ port: Int) async throws -> Void
    ) async throws {
        let context = try TLSContext(tls)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let sync = channel.pipeline.syncOperations
                    try sync.addHandlers(TLSHandler.server(context), Speaker(bytes))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let result: Result<Void, any Error>
        do { result = .success(try await body(listener.localAddress?.port ?? 0)) } catch { result = .failure(error) }
        try await listener.close()
        try result.get()
    }
}
