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

    private let connection: TLSConnection
    let configuration: TLSConfiguration

    /// How many bytes of plaintext lie in records that the kernel has accepted whole, since the handshake.
    ///
    /// The peer can have read these and no others.
    public private(set) var byteCountLeft = 0

    /// Whether the peer's side ended without close_notify, and that was taken for one.
    ///
    /// - SeeAlso: ``TLSConfiguration/acceptsTruncation``.
    public private(set) var isTruncated = false

    var context: ChannelHandlerContext?
    private var phase = Phase.idle
    var output = Output.open
    /// Whether the peer's side is closed: by its close_notify, or because reading was given up.
    private var isInputClosed = false
    private var isClosingAll = false
    private var hasReportedError = false
    private var outputPromises = RecordPromises()
    private var closePromises = RecordPromises()
    private var handshakeTimer: Scheduled<Void>?
    private var shutdownTimer: Scheduled<Void>?

    private var plaintext = PlaintextQueue()
    /// The memory of the records that were written last.
    private var writtenCiphertext = ByteBuffer()
    /// Records, in the order in which OpenSSL made them, and what follows them.
    private var outgoing = CircularBuffer<Outgoing>()
    private var isSending = false
    private var isEncrypting = false

    /// Whether the next handler was given something since the last `channelReadComplete`.
    private var hasDelivered = false
    /// Whether the next handler asked for something and has not been given it.
    private var isReadWanted = false

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
            case .handshaking: .closedDuringHandshake(detail: "")
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
        case .handshaking:
            self.fail(TLSError.closedDuringHandshake(detail: IOError.reason(error)), context: context)
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
        self.continueHandshake(context)
        if case .handshaking = self.phase { context.read() }
    }

    /// Goes on with the handshake.
    private func continueHandshake(_ context: ChannelHandlerContext) {
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
    private func takePromises() -> (writes: RecordPromises, outputs: RecordPromises, closes: RecordPromises) {
        self.phase = .ended
        self.handshakeTimer?.cancel()
        self.handshakeTimer = nil
        self.shutdownTimer?.cancel()
        self.shutdownTimer = nil
        return (self.plaintext.takeAll(), self.outputPromises.take(), self.closePromises.take())
    }
}

// MARK: - Inbound

extension TLSHandler {
    /// How many bytes of plaintext are delivered at a time.
    private static let deliveryByteCountMax = 65_536

    /// Decrypts what arrived and delivers it.
    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .ended = self.phase { return }
        // What follows close_notify means nothing (RFC 8446, 6.1).
        if self.isInputClosed { return }
        self.connection.receive(self.unwrapInboundIn(data))
        if case .handshaking = self.phase { self.continueHandshake(context) }
        self.deliver(context)
    }

    /// Passes it on, and reads more if nothing could be delivered although something is wanted.
    public func channelReadComplete(context: ChannelHandlerContext) {
        let hasDelivered = self.hasDelivered
        self.hasDelivered = false
        context.fireChannelReadComplete()
        guard !hasDelivered else { return }
        switch self.phase {
        case .handshaking: context.read()
        case .open where self.isReadWanted || self.isClosingAll: context.read()
        case .idle, .open, .ended: break
        }
    }

    /// Remembers that something is wanted.
    public func read(context: ChannelHandlerContext) {
        self.isReadWanted = true
        context.read()
    }

    /// Takes the end of the channel's input for what it means to TLS.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let event = event as? ChannelEvent, event == .inputClosed else {
            context.fireUserInboundEventTriggered(event)
            return
        }
        switch self.phase {
        case .handshaking:
            self.fail(TLSError.closedDuringHandshake(detail: ""), context: context)
        case .open where self.isInputClosed:
            // Already sent on when close_notify came.
            break
        case .open where self.isClosingAll:
            self.finishClosing(context)
        case .open where self.configuration.acceptsTruncation:
            self.isTruncated = true
            self.peerClosed(context)
        case .open:
            self.fail(TLSError.truncated, context: context)
        case .idle, .ended:
            break
        }
    }

    /// Decrypts and delivers everything that arrived.
    ///
    /// Calls out; when called again meanwhile, that call delivers what follows, in order.
    private func deliver(_ context: ChannelHandlerContext) {
        while case .open = self.phase, !self.isInputClosed {
            let (plaintext, end) = self.connection.decrypt(
                byteCountMax: Self.deliveryByteCountMax,
                allocator: context.channel.allocator
            )
            self.collectCiphertext()
            if let plaintext {
                self.hasDelivered = true
                self.isReadWanted = false
                context.fireChannelRead(self.wrapInboundOut(plaintext))
            }
            switch end {
            case .limitReached:
                continue
            case .drained:
                self.send(context)
                // Encryption may have waited for what arrived.
                self.encryptFlushed(context)
                return
            case .closeNotify:
                self.peerClosed(context)
                return
            case .failed(let error):
                self.fail(error, context: context)
                return
            }
        }
    }
}

// MARK: - Outbound

extension TLSHandler {
    /// What the channel is still to be told, in order.
    enum Outgoing {
        /// One record, or a few that belong together, how much plaintext it holds, and the promises of the writes that
        /// end in it.
        case record(ByteBuffer, plaintextByteCount: Int, RecordPromises)
        /// Close the channel, or its output, behind what was sent before.
        case close(CloseMode, EventLoopPromise<Void>?)
    }

    /// Where a record ends in the ciphertext, and what is in it.
    private struct RecordEnd {
        let byteCount: Int
        let plaintextByteCount: Int
        let promises: RecordPromises
    }

    /// How many bytes of plaintext are encrypted at a time, before the channel is asked whether it takes more.
    private static let batchByteCount = 131_072

    /// How many such batches are written before other work of the event loop gets its turn.
    private static let batchCountMax = 16

    /// Keeps the bytes until they are flushed.
    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch (self.phase, self.output) {
        case (.ended, _):
            promise?.fail(ChannelError.ioOnClosedChannel)
        case (_, .closing), (_, .closed):
            promise?.fail(ChannelError.outputClosed)
        case (_, .open):
            self.plaintext.append(self.unwrapOutboundIn(data), promise: promise)
        }
    }

    /// Encrypts what was written, as much as the channel takes.
    public func flush(context: ChannelHandlerContext) {
        // After close was called, what comes later is not sent.
        guard case .open = self.output else { return }
        self.plaintext.markFlushed()
        self.encryptFlushed(context)
    }

    /// Goes on with what the channel could not take before.
    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.encryptFlushed(context)
        context.fireChannelWritabilityChanged()
    }

    /// Encrypts flushed bytes while the channel is writable, then sends close_notify if that is due.
    ///
    /// Calls out; when called again meanwhile, it leaves the work to the call that runs.
    private func encryptFlushed(_ context: ChannelHandlerContext) {
        guard !self.isEncrypting, !self.isSending else { return }
        self.isEncrypting = true
        defer { self.isEncrypting = false }
        var batchCount = 0
        while self.isEncryptionDue, context.channel.isWritable {
            guard batchCount < Self.batchCountMax else {
                self.encryptLater(context)
                return
            }
            batchCount += 1
            let step = self.encryptBatch(context)
            self.send(context)
            switch step {
            case .complete: break
            case .wantsPeer: return
            case .failed(let error):
                self.fail(error, context: context)
                return
            }
        }
        self.closeOutputIfDue(context)
    }

    private var isEncryptionDue: Bool {
        guard case .open = self.phase else { return false }
        if case .closed = self.output { return false }
        return self.plaintext.hasFlushed
    }

    private func encryptLater(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().execute { [weak self] in
            guard let self, let context = self.context else { return }
            self.encryptFlushed(context)
        }
    }

    /// Encrypts the next batch into records; calls nobody.
    private func encryptBatch(_ context: ChannelHandlerContext) -> TLSConnection.Step {
        let wanted = min(self.plaintext.flushedBytes, Self.batchByteCount)
        let recordCountMax = wanted / TLSConnection.recordByteCountMax + 1
        let capacity = wanted + recordCountMax * TLSConnection.recordOverheadByteCount
        self.connection.write(to: &self.writtenCiphertext, capacity: capacity)
        var ends: [RecordEnd] = []
        ends.reserveCapacity(recordCountMax)
        var scratch = ByteBuffer()
        var step = TLSConnection.Step.complete
        var total = 0
        while self.plaintext.hasFlushed, total < Self.batchByteCount {
            let encrypted = unsafe self.plaintext.withNextRecord(
                byteCountMax: TLSConnection.recordByteCountMax,
                scratch: &scratch
            ) {
                // Writes without bytes have no record of their own.
                unsafe $0.isEmpty ? (0, .complete) : self.connection.encrypt($0)
            }
            step = encrypted.step
            guard case .complete = step else { break }
            total += encrypted.byteCount
            let promises = self.plaintext.consume(encrypted.byteCount)
            ends.append(
                RecordEnd(
                    byteCount: self.connection.ciphertextByteCount,
                    plaintextByteCount: encrypted.byteCount,
                    promises: promises
                )
            )
        }
        self.writtenCiphertext = self.collectCiphertext(ends)
        return step
    }

    /// Queues what OpenSSL wrote, cut where records end.
    ///
    /// - Parameter ends: Where each record ends, counted from the first, and the promises of the writes in it.
    /// - Returns: The memory of all, to be used again when the channel has written it.
    @discardableResult
    private func collectCiphertext(_ ends: [RecordEnd] = []) -> ByteBuffer {
        var bytes = self.connection.takeCiphertext() ?? ByteBuffer()
        let start = bytes.readableBytes
        for end in ends {
            let count = end.byteCount - (start - bytes.readableBytes)
            let slice = bytes.readSlice(length: count) ?? ByteBuffer()
            self.outgoing.append(.record(slice, plaintextByteCount: end.plaintextByteCount, end.promises))
        }
        // Handshake messages and alerts belong to no write.
        if bytes.readableBytes > 0 {
            self.outgoing.append(.record(bytes, plaintextByteCount: 0, RecordPromises()))
        }
        return bytes
    }

    /// Gives the channel what is queued for it, in order, and flushes.
    ///
    /// Calls out. What is queued meanwhile is sent by the call that runs, so that nothing overtakes a record.
    private func send(_ context: ChannelHandlerContext) {
        guard !self.isSending, !self.outgoing.isEmpty else { return }
        self.isSending = true
        while let next = self.outgoing.popFirst() {
            switch next {
            case .record(let bytes, let plaintextByteCount, let promises):
                let promise = self.promise(plaintextByteCount, promises, context)
                context.write(self.wrapOutboundOut(bytes), promise: promise)
                if case .record? = self.outgoing.first { continue }
                context.flush()
            case .close(let mode, let promise):
                self.closeChannel(context, mode: mode, promise: promise)
            }
        }
        self.isSending = false
        // What was flushed by those who were called had to wait for this.
        self.encryptFlushed(context)
    }

    /// The promises of the writes that end in a record, and of the count of bytes that have left.
    private func promise(
        _ plaintextByteCount: Int,
        _ promises: RecordPromises,
        _ context: ChannelHandlerContext
    ) -> EventLoopPromise<Void>? {
        let joined = promises.joined(on: context.eventLoop)
        guard plaintextByteCount > 0 else { return joined }
        let promise = joined ?? context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess { self.byteCountLeft += plaintextByteCount }
        return promise
    }

    private func closeChannel(_ context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if case .all = mode, !context.channel.isActive {
            // It was closed meanwhile, which is what was wanted.
            promise?.succeed(())
            context.close(promise: nil)
        } else {
            context.close(mode: mode, promise: promise)
        }
    }
}

// MARK: - Closing

extension TLSHandler {
    /// Closes the connection or one side of it, with close_notify where TLS has one.
    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        switch (self.phase, mode) {
        case (.ended, _):
            context.close(mode: mode, promise: promise)
        case (_, .input):
            self.isInputClosed = true
            context.close(mode: .input, promise: promise)
        case (.idle, .all), (.handshaking, .all):
            self.closePromises.append(promise)
            self.finishClosing(context)
        case (.open, .all):
            self.closePromises.append(promise)
            self.closeAll(context)
        case (_, .output):
            self.closeOutput(context, promise: promise)
        }
    }

    private func closeOutput(_ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        guard case .open = self.output else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        self.output = .closing
        self.outputPromises.append(promise)
        self.plaintext.takeUnflushed().fail(ChannelError.outputClosed)
        self.encryptFlushed(context)
    }

    private func closeAll(_ context: ChannelHandlerContext) {
        guard !self.isClosingAll else { return }
        self.isClosingAll = true
        self.startShutdownTimer(context)
        switch self.output {
        case .open:
            self.closeOutput(context, promise: nil)
        case .closing:
            break
        case .closed:
            if self.isInputClosed { self.finishClosing(context) }
        }
        // Without it, the peer's close_notify would not be read where reads are asked for one by one.
        if case .open = self.phase { context.read() }
    }

    /// Sends close_notify when closing was asked for and all that was flushed is encrypted.
    private func closeOutputIfDue(_ context: ChannelHandlerContext) {
        guard case .open = self.phase, case .closing = self.output, !self.plaintext.hasFlushed else { return }
        guard self.sendCloseNotify(context), case .open = self.phase else { return }
        let promise = self.outputPromises.take().joined(on: context.eventLoop)
        if self.isInputClosed {
            self.closePromises.append(promise)
            context.fireUserInboundEventTriggered(TLSUserEvent.shutdownCompleted)
            self.finishClosing(context)
        } else if self.isClosingAll {
            self.closePromises.append(promise)
        } else {
            self.outgoing.append(.close(.output, promise))
            self.send(context)
        }
    }

    /// - Returns: Whether it was sent; if not, it must wait for more from the peer, or the connection failed.
    private func sendCloseNotify(_ context: ChannelHandlerContext) -> Bool {
        let step = self.connection.sendCloseNotify()
        switch step {
        case .complete:
            self.output = .closed
            self.collectCiphertext()
            self.send(context)
            return true
        case .wantsPeer:
            return false
        case .failed(let error):
            self.fail(error, context: context)
            return false
        }
    }

    /// Takes the peer's close_notify.
    private func peerClosed(_ context: ChannelHandlerContext) {
        guard case .open = self.phase, !self.isInputClosed else { return }
        self.isInputClosed = true
        switch self.output {
        case .closed:
            context.fireUserInboundEventTriggered(TLSUserEvent.shutdownCompleted)
            self.finishClosing(context)
        case .closing:
            self.startShutdownTimer(context)
            self.encryptFlushed(context)
        case .open where self.allowsRemoteHalfClosure(context):
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        case .open:
            self.answerClose(context)
        }
    }

    private func allowsRemoteHalfClosure(_ context: ChannelHandlerContext) -> Bool {
        (try? context.channel.syncOptions?.getOption(.allowRemoteHalfClosure)) ?? false
    }

    /// Answers close_notify with one and closes; what has not been encrypted is not sent (RFC 5246, 7.2.1).
    private func answerClose(_ context: ChannelHandlerContext) {
        self.output = .closing
        self.plaintext.takeAll().fail(ChannelError.eof)
        guard case .open = self.phase, self.sendCloseNotify(context), case .open = self.phase else { return }
        context.fireUserInboundEventTriggered(TLSUserEvent.shutdownCompleted)
        self.finishClosing(context)
    }

    private func startShutdownTimer(_ context: ChannelHandlerContext) {
        guard self.shutdownTimer == nil else { return }
        self.shutdownTimer = context.eventLoop.assumeIsolated().scheduleTask(
            in: TimeAmount(self.configuration.shutdownTimeout)
        ) { [weak self] in
            guard let self, let context = self.context, case .open = self.phase else { return }
            self.finishClosing(context)
        }
    }

    /// Closes the channel; whatever still waits fails.
    private func finishClosing(_ context: ChannelHandlerContext) {
        if case .ended = self.phase { return }
        let (writes, outputs, closes) = self.takePromises()
        writes.fail(ChannelError.ioOnClosedChannel)
        outputs.fail(ChannelError.ioOnClosedChannel)
        self.outgoing.append(.close(.all, closes.joined(on: context.eventLoop)))
        self.send(context)
    }
}

// MARK: - What was agreed on

extension TLSHandler {
    /// The peer's certificate; `nil` before the handshake, and where the peer presented none.
    public var peerCertificate: TLSCertificate? { self.connection.peerCertificate }

    /// The certificates that the peer sent behind its own, such as those of intermediate authorities; none in a resumed
    /// session.
    public var peerIntermediates: [TLSCertificate] { self.connection.peerIntermediates }

    /// Whether the server asked for the client's certificate; false before the handshake, and in a resumed session.
    ///
    /// For clients only.
    package var hasCertificateRequest: Bool { self.isHandshakeDone && self.connection.hasCertificateRequest }

    /// What is wrong with the peer's certificate, where it was accepted nevertheless; else `nil`.
    ///
    /// - SeeAlso: ``TLSConfiguration/acceptsUnverifiedClientCertificates``.
    public var peerVerificationProblem: TLSError? { self.connection.verificationProblem }

    /// The TLS version agreed on; `nil` before the handshake.
    public var negotiatedVersion: TLSVersion? { self.isHandshakeDone ? self.connection.version : nil }

    /// OpenSSL's name of the cipher agreed on; `nil` before the handshake.
    public var cipherName: String? { self.isHandshakeDone ? self.connection.cipherName : nil }

    /// The application protocol (ALPN) agreed on, if any.
    public var negotiatedProtocol: String? { self.connection.applicationProtocol }

    /// Whether the handshake resumed an earlier session.
    public var isSessionReused: Bool { self.connection.isSessionReused }

    /// The host name that the client asked for (SNI), if any.
    public var requestedServerName: String? { self.connection.requestedServerName }

    private var isHandshakeDone: Bool { !self.connection.isHandshaking }
}
