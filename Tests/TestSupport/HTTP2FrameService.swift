// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOPosix
import NIOTLS
public import OpenSSLTLS

/// A service in plain HTTP/2 frames, with scripted settings and without window updates.
///
/// It answers PING and SETTINGS, so that clients consider it alive.
public final class HTTP2FrameService: Sendable {
    /// The behavior of the service.
    public struct Script: Sendable {
        /// The parameters of its SETTINGS frame, by number (RFC 9113, section 6.5.2).
        public var settings: [(UInt16, UInt32)]
        /// Whether it answers complete requests with 200; otherwise it never answers.
        public var answers: Bool

        /// The frames sent in response to a complete request.
        public var reply: @Sendable (_ stream: UInt32) -> [UInt8] = { HTTP2Wire.headers($0, HTTP2Wire.status200) }
        /// The frames sent repeatedly after that, as fast as the client reads.
        public var flood: [UInt8] = []
        /// The protocols that it offers by ALPN.
        public var applicationProtocols = ["h2"]

        /// Creates a script.
        public init(settings: [(UInt16, UInt32)] = [], answers: Bool = true) {
            self.settings = settings
            self.answers = answers
        }

        /// A script that answers a complete request with these bytes, and then repeats others.
        public static func saying(
            _ reply: @escaping @Sendable (_ stream: UInt32) -> [UInt8],
            then flood: [UInt8] = []
        ) -> Self {
            var script = Self()
            script.reply = reply
            script.flood = flood
            return script
        }

        /// Permits no streams.
        public static let noStreams = Self(settings: [(3, 0)])
        /// Permits no body bytes.
        public static let noWindow = Self(settings: [(4, 0)])
        /// Permits 65,535 body bytes per connection.
        public static let fixedWindow = Self()
        /// Accepts everything, and never answers.
        public static let silent = Self(answers: false)
    }

    /// What the service received.
    public struct Record: Sendable {
        /// The number of connections to which it sent its SETTINGS.
        public var connectionCount = 0
        /// The number of requests whose headers arrived.
        public var headersCount = 0
        /// The bodies of complete requests, in the order of their ends.
        public var bodies: [String] = []
        /// The codes of the client's GOAWAY frames.
        public var goAwayCodes: [UInt32] = []
    }

    /// A condition was not met in time.
    public struct Overdue: Error {
        /// The record at the time limit.
        public let record: Record
    }

    /// The port on 127.0.0.1.
    public let port: Int
    private let listener: any Channel
    private let observed: ObservedValue<Record>

    private init(listener: any Channel, observed: ObservedValue<Record>) {
        self.listener = listener
        self.port = listener.localAddress?.port ?? 0
        self.observed = observed
    }

    /// Runs a service, and passes it to a closure.
    public static func withRunning<Value: Sendable>(
        _ script: Script,
        tls: TLSConfiguration,
        _ body: (HTTP2FrameService) async throws -> Value
    ) async throws -> Value {
        var tls = tls
        tls.applicationProtocols = script.applicationProtocols
        let context = try TLSContext(tls)
        let observed = ObservedValue(Record())
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        TLSHandler.server(context),
                        FrameHandler(script) { change in observed.change(change) }
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let service = HTTP2FrameService(listener: listener, observed: observed)
        let result: Result<Value, any Error>
        do { result = .success(try await body(service)) } catch { result = .failure(error) }
        try await listener.close()
        return try result.get()
    }

    /// The current record.
    public var record: Record { self.observed.current }

    /// Waits until the record meets a condition, for at most 20 seconds.
    public func wait(until isMet: @escaping @Sendable (Record) -> Bool) async throws {
        try await self.observed.wait(until: isMet) { Overdue(record: $0) }
    }
}

/// A connection.
private final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let script: HTTP2FrameService.Script
    private let note: ((inout HTTP2FrameService.Record) -> Void) -> Void
    private var bytes = ByteBuffer()
    private var hasPreface = false
    private var bodies: [UInt32: ByteBuffer] = [:]
    private var isFlooding = false

    init(
        _ script: HTTP2FrameService.Script,
        _ note: @escaping ((inout HTTP2FrameService.Record) -> Void) -> Void
    ) {
        self.script = script
        self.note = note
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent {
            var settings = ByteBuffer()
            for (name, value) in self.script.settings { settings.writeMultipleIntegers(name, value) }
            self.write(context, kind: 4, settings)
            self.note { $0.connectionCount += 1 }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var arrived = self.unwrapInboundIn(data)
        self.bytes.writeBuffer(&arrived)
        if !self.hasPreface {
            guard self.bytes.readBytes(length: 24) != nil else { return }
            self.hasPreface = true
        }
        while let start = self.bytes.getInteger(at: self.bytes.readerIndex, as: UInt32.self),
            self.bytes.readableBytes >= 9 + Int(start >> 8),
            let (_, flags, stream) = self.bytes.readMultipleIntegers(as: (UInt32, UInt8, UInt32).self),
            let body = self.bytes.readSlice(length: Int(start >> 8))
        {
            self.received(context, kind: UInt8(truncatingIfNeeded: start), flags, stream, body)
        }
        self.bytes.discardReadBytes()
    }

    private func received(
        _ context: ChannelHandlerContext,
        kind: UInt8,
        _ flags: UInt8,
        _ stream: UInt32,
        _ body: ByteBuffer
    ) {
        switch kind {
        case 0:
            var body = body
            self.bodies[stream, default: ByteBuffer()].writeBuffer(&body)
            guard flags & 1 != 0, let whole = self.bodies.removeValue(forKey: stream) else { return }
            self.note { $0.bodies.append(String(buffer: whole)) }
            guard self.script.answers else { return }
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: self.script.reply(stream))), promise: nil)
            if !self.script.flood.isEmpty, !self.isFlooding { self.flood(context) }
        case 1: self.note { $0.headersCount += 1 }
        case 4 where flags & 1 == 0: self.write(context, kind: 4, flags: 1, ByteBuffer())
        case 6 where flags & 1 == 0: self.write(context, kind: 6, flags: 1, body)
        case 7:
            guard let code = body.getInteger(at: body.readerIndex + 4, as: UInt32.self) else { return }
            self.note { $0.goAwayCodes.append(code) }
        default: break
        }
    }

    private func flood(_ context: ChannelHandlerContext) {
        self.isFlooding = true
        let count = max(1, 16_384 / self.script.flood.count)
        let bytes = ByteBuffer(bytes: Array(repeating: self.script.flood, count: count).joined())
        let promise = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        promise.futureResult.whenSuccess {
            let (handler, context) = bound.value
            handler.flood(context)
        }
        context.writeAndFlush(self.wrapOutboundOut(bytes), promise: promise)
    }

    private func write(
        _ context: ChannelHandlerContext,
        kind: UInt8,
        flags: UInt8 = 0,
        stream: UInt32 = 0,
        _ body: ByteBuffer
    ) {
        var frame = ByteBuffer()
        frame.writeMultipleIntegers(UInt32(body.readableBytes) << 8 | UInt32(kind), flags, stream)
        frame.writeImmutableBuffer(body)
        context.writeAndFlush(self.wrapOutboundOut(frame), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
