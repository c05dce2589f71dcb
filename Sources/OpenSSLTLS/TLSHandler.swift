// SPDX-License-Identifier: Apache-2.0

public import NIOCore
import NIOTLS

/// TLS for one channel, over the system's OpenSSL.
///
/// Put it first into the pipeline; plaintext goes in and out above it. It sends `TLSUserEvent.handshakeCompleted`
/// when the handshake is done and `TLSUserEvent.shutdownCompleted` when both ends have sent close_notify.
///
/// - **Writes** wait until they are flushed and the handshake is done. Flushed bytes are gathered into records of
///   16,384, as many as the channel takes while it is writable. A write's promise succeeds when the record with its
///   last byte has been accepted whole by the kernel; a record that was not can never be read by the peer. All
///   other promises fail.
/// - **Errors** are reported once per connection, as a ``TLSError`` or as the error of the channel, after everything
///   that had arrived was delivered. The channel is closed then. A TLS 1.3 server that refuses the client's
///   certificate does so after `handshakeCompleted`.
/// - **Closing** the output sends what was flushed, close_notify, and closes the channel's output. Closing all waits
///   in addition, no longer than ``TLSConfiguration/shutdownTimeout``, for the peer's close_notify; data that still
///   arrives is delivered. When the peer closes first, the channel is closed, unless its option
///   `allowRemoteHalfClosure` is on: then `ChannelEvent.inputClosed` is sent and writing may go on.
///
/// Not thread-safe: everything is called on the channel's event loop.
public final class TLSHandler: ChannelDuplexHandler, RemovableChannelHandler {
    /// Ciphertext from the channel; plaintext to the next handler.
    public typealias InboundIn = ByteBuffer
    /// Plaintext to the next handler.
    public typealias InboundOut = ByteBuffer
    /// Plaintext from the next handler.
    public typealias OutboundIn = ByteBuffer
    /// Ciphertext to the channel.
    public typealias OutboundOut = ByteBuffer

    enum Phase {
        /// The channel is not active yet.
        case idle
        case handshaking
        case open
        /// Failed, closed, or removed: nothing is read or written any more.
        case ended
    }

    enum Output {
        case open
        /// close_notify follows when what was flushed has been encrypted.
        case closing
        /// close_notify has been sent.
        case closed
    }

    let connection: TLSConnection
    let configuration: TLSConfiguration

    /// How many bytes of plaintext lie in records that the kernel has accepted whole, since the handshake.
    ///
    /// The peer can have read these and no others.
    public internal(set) var byteCountLeft = 0

    /// Whether the peer's side ended without close_notify, and that was taken for one.
    ///
    /// - SeeAlso: ``TLSConfiguration/acceptsTruncation``.
    public internal(set) var isTruncated = false

    var context: ChannelHandlerContext?
    var phase = Phase.idle
    var output = Output.open
    /// Whether the peer's side is closed: by its close_notify, or because reading was given up.
    var isInputClosed = false
    var isClosingAll = false
    var hasReportedError = false
    var outputPromises = RecordPromises()
    var closePromises = RecordPromises()
    var handshakeTimer: Scheduled<Void>?
    var shutdownTimer: Scheduled<Void>?

    var plaintext = PlaintextQueue()
    /// The memory of the records that were written last.
    var writtenCiphertext = ByteBuffer()
    /// Records, in the order in which OpenSSL made them, and what follows them.
    var outgoing = CircularBuffer<Outgoing>()
    var isSending = false
    var isEncrypting = false

    /// Whether the next handler was given something since the last `channelReadComplete`.
    var hasDelivered = false
    /// Whether the next handler asked for something and has not been given it.
    var isReadWanted = false

    /// Makes a handler of a client.
    ///
    /// - Parameters:
    ///   - context: A client's context.
    ///   - serverName: The host name or IP address that the certificate must be for; host names are also sent (SNI).
    ///     `nil` only if the host name is not verified.
    /// - Throws: ``TLSError/serverNameInvalid(_:)``, ``TLSError/trustUnusable(detail:)``,
    ///   ``TLSError/configurationUnusable(detail:)`` for a server's context.
    public convenience init(context: TLSContext, serverName: String?) throws(TLSError) {
        try self.init(context, role: .client, serverName: serverName)
    }

    /// Makes a handler of a server.
    ///
    /// - Throws: ``TLSError/trustUnusable(detail:)``, ``TLSError/configurationUnusable(detail:)`` for a client's
    ///   context.
    public convenience init(serverContext context: TLSContext) throws(TLSError) {
        try self.init(context, role: .server, serverName: nil)
    }

    private init(_ context: TLSContext, role: TLSConfiguration.Role, serverName: String?) throws(TLSError) {
        guard context.configuration.role == role else {
            throw .configurationUnusable(detail: "the context is for the other end")
        }
        self.configuration = context.configuration
        self.connection = try TLSConnection(context: context, serverName: serverName)
    }

    // MARK: Life

    /// Starts the handshake if the channel is active.
    public func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { self.start(context) }
    }

    /// Fails what is still waiting.
    public func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        self.end(failingWritesWith: ChannelError.ioOnClosedChannel)
        self.closePromises.take().fail(ChannelError.ioOnClosedChannel)
    }

    /// Starts the handshake.
    public func channelActive(context: ChannelHandlerContext) {
        self.start(context)
        context.fireChannelActive()
    }

    /// Reports a connection that ended too early, unless an error was reported already.
    public func channelInactive(context: ChannelHandlerContext) {
        let error: TLSError? =
            switch self.phase {
            case .handshaking: .closedDuringHandshake(detail: "without a reason")
            case .open where !self.isInputClosed && !self.isClosingAll: .truncated
            case .idle, .open, .ended: nil
            }
        let closePromises = self.closePromises.take()
        self.end(failingWritesWith: error ?? ChannelError.ioOnClosedChannel)
        if let error { self.report(error, context: context) }
        closePromises.succeed()
        context.fireChannelInactive()
    }

    /// Passes an error of the channel on, unless one was reported already.
    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch self.phase {
        case .idle, .open: self.fail(error, context: context)
        case .handshaking: self.fail(TLSError.closedDuringHandshake(detail: "\(error)"), context: context)
        case .ended: break
        }
    }

    private func start(_ context: ChannelHandlerContext) {
        guard case .idle = self.phase else { return }
        self.phase = .handshaking
        self.handshakeTimer = context.eventLoop.assumeIsolated().scheduleTask(
            in: TimeAmount(self.configuration.handshakeTimeout)
        ) { [weak self] in
            guard let self, let context = self.context, case .handshaking = self.phase else { return }
            self.fail(TLSError.handshakeTimedOut, context: context)
        }
        self.shakeHands(context)
        if case .handshaking = self.phase { context.read() }
    }

    /// Goes on with the handshake.
    func shakeHands(_ context: ChannelHandlerContext) {
        let step = self.connection.handshake()
        self.collectCiphertext()
        switch step {
        case .complete:
            self.phase = .open
            self.handshakeTimer?.cancel()
            self.handshakeTimer = nil
            let name = self.connection.applicationProtocol
            context.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: name))
            self.send(context)
            self.encryptFlushed(context)
        case .wantsPeer:
            self.send(context)
        case .failed(let error):
            self.fail(error, context: context)
        }
    }

    // MARK: The end

    /// Reports the error, fails what is waiting, and closes the channel.
    func fail(_ error: any Error, context: ChannelHandlerContext) {
        if case .ended = self.phase { return }
        let (writes, outputs, closes) = self.takePromises()
        self.collectCiphertext()
        // An alert that says why, if there is one.
        self.send(context)
        self.report(error, context: context)
        writes.fail(error)
        outputs.fail(error)
        self.outgoing.append(.close(.all, closes.joined(on: context.eventLoop)))
        self.send(context)
    }

    private func report(_ error: any Error, context: ChannelHandlerContext) {
        guard !self.hasReportedError else { return }
        self.hasReportedError = true
        context.fireErrorCaught(error)
    }

    /// Ends without closing the channel.
    func end(failingWritesWith error: any Error) {
        let (writes, outputs, closes) = self.takePromises()
        self.closePromises = closes
        writes.fail(error)
        outputs.fail(error)
    }

    /// Enters the last phase; the caller completes the promises, which may call back.
    func takePromises() -> (writes: RecordPromises, outputs: RecordPromises, closes: RecordPromises) {
        self.phase = .ended
        self.handshakeTimer?.cancel()
        self.handshakeTimer = nil
        self.shutdownTimer?.cancel()
        self.shutdownTimer = nil
        return (self.plaintext.takeAll(), self.outputPromises.take(), self.closePromises.take())
    }
}
