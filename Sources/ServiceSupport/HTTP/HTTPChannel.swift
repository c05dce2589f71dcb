// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1

/// The pipeline of a connection to an HTTP listener.
///
/// Hummingbird's own has no place for ``UpgradeIgnoringHandler``.
struct HTTPChannel: HTTPChannelHandler {
    typealias Value = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>

    /// The size of a connection's send buffer in bytes; the kernel's own limit is some megabytes, which a client that
    /// does not read would occupy.
    private static let sendBufferByteCount = 128 * 1024

    let responder: Responder
    let connections: HTTPConnections
    let limits: HTTPListener.Limits

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.syncOptions?.setOption(.socketOption(.so_sndbuf), value: Self.sendBufferByteCount)
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(HTTPResponseEncoder())
            try UpgradeIgnoringHandler.add(to: pipeline)
            try pipeline.addHandlers(
                HTTP1ToHTTPServerCodec(secure: false),
                HTTPConnectionHandler(self.connections, self.limits),
                HTTPConnectionStateHandler(logger: logger)
            )
            return try NIOAsyncChannel(
                wrappingChannelSynchronously: channel,
                configuration: .init(isOutboundHalfClosureEnabled: true)
            )
        }
    }

    func handle(value: Value, logger: Logger) async { await self.handleHTTP(asyncChannel: value, logger: logger) }
}

/// Keeps a connection usable after a request with `Upgrade`, such as those of Java's `HttpClient` to HTTP/2.
///
/// A server may ignore that header (RFC 9110, 7.8). But the decoder stops after such a request, since the next bytes
/// could be of the other protocol, and `CONNECT` has the same effect. A new decoder takes its place then.
final class UpgradeIgnoringHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private typealias Decoder = ByteToMessageHandler<HTTPRequestDecoder>

    private var decoder: Decoder
    private var isUpgrade = false

    private init(_ decoder: Decoder) { self.decoder = decoder }

    /// Adds a decoder, and this handler behind it.
    static func add(to pipeline: ChannelPipeline.SynchronousOperations) throws {
        let decoder = Self.makeDecoder()
        try pipeline.addHandlers(decoder, UpgradeIgnoringHandler(decoder))
    }

    private static func makeDecoder() -> Decoder { Decoder(HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes)) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = self.unwrapInboundIn(data) { self.isUpgrade = Self.stopsDecoder(head) }
        context.fireChannelRead(data)
        if case .end = self.unwrapInboundIn(data), self.isUpgrade { self.replaceDecoder(context) }
    }

    private static func stopsDecoder(_ head: HTTPRequestHead) -> Bool {
        head.method == .CONNECT
            || head.headers.contains(name: "upgrade")
                && head.headers[canonicalForm: "connection"].contains { $0.lowercased() == "upgrade" }
    }

    private func replaceDecoder(_ context: ChannelHandlerContext) {
        let pipeline = context.pipeline.syncOperations
        let stopped = self.decoder
        self.isUpgrade = false
        self.decoder = Self.makeDecoder()
        do {
            try pipeline.addHandler(self.decoder, position: .after(stopped))
        } catch { return context.close(promise: nil) }
        // It passes on the bytes after the request when it leaves; readers wait for the end of a read.
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        pipeline.removeHandler(stopped).whenComplete { _ in bound.value.fireChannelReadComplete() }
    }
}
