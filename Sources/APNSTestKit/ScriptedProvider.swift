// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import NIOCore
import NIOPosix
import NIOTLS
public import OpenSSLTLS

/// A provider that sends given bytes, and records what it receives.
public struct ScriptedProvider: Sendable {
    /// How a connection ended.
    public struct Ending: Sendable {
        /// All received bytes.
        public var bytes: [UInt8]
        /// Whether the gateway sent close_notify.
        public var hasCloseNotify: Bool
        /// The error that was reported, if any.
        public var error: (any Error)?
    }

    /// An awaited event did not happen in time.
    public struct DeadlineExceeded: Error, CustomStringConvertible {
        /// The awaited event.
        public let description: String
    }

    /// The connection.
    public let channel: any Channel
    private let notes: ObservedValue<ProviderRecord>

    /// Runs `body` with a connection after its handshake, and closes it before this method returns or throws.
    ///
    /// - Parameters:
    ///   - port: the port on loopback.
    ///   - tls: a client's TLS configuration, such as that of `CertificateAuthority.makeClientTLS(topic:)`.
    ///   - serverName: the name that the server's certificate must contain.
    ///   - isReading: whether input is read from the start.
    ///   - body: receives the connection.
    /// - Returns: what `body` returns.
    /// - Throws: the error of `body`, or of connecting.
    public static func withConnection<Value>(
        port: Int,
        tls: TLSConfiguration,
        serverName: String = "localhost",
        isReading: Bool = true,
        _ body: (ScriptedProvider) async throws -> Value
    ) async throws -> Value {
        let notes = ObservedValue(ProviderRecord())
        let context = try TLSContext(tls)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.autoRead, value: isReading)
            .connectTimeout(.seconds(10))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let tls = try TLSHandler.client(context, serverName: serverName)
                    try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls, ProviderRecorder(notes))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        let provider = ScriptedProvider(channel: channel, notes: notes)
        let result: Result<Value, any Error>
        do {
            try await provider.wait("the handshake") { $0.isHandshakeDone }
            result = .success(try await body(provider))
        } catch {
            result = .failure(error)
        }
        channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        try? await channel.closeFuture.get()
        return try result.get()
    }

    /// Writes bytes and waits until the kernel has them.
    ///
    /// - Parameter bytes: the bytes.
    /// - Throws: the error of the write.
    public func send(_ bytes: ByteBuffer) async throws {
        try await self.channel.writeAndFlush(bytes).get()
    }

    /// Writes bytes and waits until the kernel has them.
    ///
    /// - Parameter bytes: the bytes.
    /// - Throws: the error of the write.
    public func send(_ bytes: [UInt8]) async throws { try await self.send(ByteBuffer(bytes: bytes)) }

    /// Writes bytes, and ignores errors.
    ///
    /// - Parameter bytes: the bytes.
    public func push(_ bytes: [UInt8]) { self.push(ByteBuffer(bytes: bytes)) }

    /// Writes bytes, and ignores errors.
    ///
    /// - Parameter bytes: the bytes.
    public func push(_ bytes: ByteBuffer) { self.channel.writeAndFlush(bytes, promise: nil) }

    /// Sends close_notify, and closes the sending side.
    ///
    /// - Throws: the error of closing.
    public func closeOutput() async throws { try await self.channel.close(mode: .output).get() }

    /// Closes the socket abruptly, as if the process had died.
    public func cut() { self.channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil) }

    /// Waits for bytes.
    ///
    /// - Parameter count: the number of bytes since the start of the connection.
    /// - Returns: all received bytes.
    /// - Throws: ``DeadlineExceeded`` if there are fewer after 20 seconds.
    @discardableResult
    public func received(byteCount count: Int) async throws -> [UInt8] {
        try await self.wait("\(count) bytes") { $0.ending.bytes.count >= count }
        return self.notes.current.ending.bytes
    }

    /// Waits for the end of input.
    ///
    /// - Parameter limit: the maximum time to wait; by default 20 seconds.
    /// - Returns: how it ended.
    /// - Throws: ``DeadlineExceeded`` if it did not end.
    public func end(within limit: Duration = .seconds(20)) async throws -> Ending {
        try await self.wait("the end", within: limit) { $0.isEnded }
        return self.notes.current.ending
    }

    /// The bytes received so far.
    public var bytes: [UInt8] { self.notes.current.ending.bytes }

    private func wait(
        _ what: String,
        within limit: Duration = .seconds(20),
        until isMet: @escaping @Sendable (ProviderRecord) -> Bool
    ) async throws {
        try await self.notes.wait(within: limit, until: isMet) { _ in
            DeadlineExceeded(description: "\(what) did not arrive in time")
        }
    }
}

/// What a scripted provider has received.
struct ProviderRecord: Sendable {
    var ending = ScriptedProvider.Ending(bytes: [], hasCloseNotify: false, error: nil)
    var isHandshakeDone = false
    var isEnded = false
}

/// The last handler of a scripted provider's pipeline.
private final class ProviderRecorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let notes: ObservedValue<ProviderRecord>

    init(_ notes: ObservedValue<ProviderRecord>) { self.notes = notes }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        self.notes.change { $0.ending.bytes += bytes.readableBytesView }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted: self.notes.change { $0.isHandshakeDone = true }
        case TLSUserEvent.shutdownCompleted, ChannelEvent.inputClosed:
            self.notes.change {
                $0.ending.hasCloseNotify = true
                $0.isEnded = true
            }
        default: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.notes.change { $0.ending.error = $0.ending.error ?? error }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.notes.change {
            $0.isHandshakeDone = true
            $0.isEnded = true
        }
    }
}
