// SPDX-License-Identifier: Apache-2.0

public import NIOCore
import NIOTLS

/// TLS for one channel, with the system's OpenSSL.
///
/// Add it as the first handler of the pipeline; handlers after it see plaintext. It fires
/// `TLSUserEvent.handshakeCompleted` when the handshake is complete and `TLSUserEvent.shutdownCompleted` when both
/// sides have sent close_notify. From the former event on, ``peerCertificate`` and the other negotiated properties are
/// available; a later handler finds this one with `context.pipeline.syncOperations.handler(type:)`.
///
/// - **Writes** wait until they are flushed and the handshake is complete. Flushed bytes are gathered into records of
///   16,384 bytes, while the channel is writable. A write's promise succeeds when the kernel has accepted the whole
///   record with its last byte; the peer can never read an incomplete record. All other promises fail.
/// - **Errors** are reported once per connection, as a ``TLSError`` or as the error of the channel, after all data
///   received before was delivered. The channel is then closed. A TLS 1.3 server that rejects the client's certificate
///   does so after `handshakeCompleted`.
/// - **Closing** the output sends all flushed data and close_notify, and closes the channel's output. Closing all also
///   waits for the peer's close_notify, up to ``TLSConfiguration/shutdownTimeout``; data that arrives until then is
///   delivered. When the peer closes first, the channel is closed, unless its option `allowRemoteHalfClosure` is on:
///   then `ChannelEvent.inputClosed` is fired and writing may continue.
///
/// Not thread-safe: all methods must be called on the channel's event loop.
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
        /// Failed, closed, or removed: nothing more is read or written.
        case ended
    }

    enum Output {
        case open
        /// close_notify is sent after all flushed data has been encrypted.
        case closing
        /// close_notify has been sent.
        case closed
    }

    private let connection: TLSConnection
    let configuration: TLSConfiguration

    private var recordEnds = RecordEnds()

    /// Whether the peer's stream ended without close_notify, and that was treated as close_notify.
    ///
    /// - SeeAlso: ``TLSConfiguration/acceptsTruncation``.
    public private(set) var isTruncated = false

    var context: ChannelHandlerContext?
    private var phase = Phase.idle
    var output = Output.open
    /// Whether the peer's side is closed, by its close_notify or because reading was stopped.
    private var isInputClosed = false
    private var isClosingAll = false
    private var hasReportedError = false
    private var outputPromises = RecordPromises()
    private var closePromises = RecordPromises()
    private var handshakeTimer: Scheduled<Void>?
    private var shutdownTimer: Scheduled<Void>?

    private var plaintext = PlaintextQueue()
    /// The memory of the last written records.
    private var writtenCiphertext = ByteBuffer()
    /// Records in the order in which OpenSSL created them, and events that follow them.
    private var outgoing = CircularBuffer<Outgoing>()
    private var isSending = false
    private var isEncrypting = false

    /// Whether data was passed to the next handler since the last `channelReadComplete`.
    private var hasDelivered = false
    /// Whether the next handler has asked for data and not received any yet.
    private var isReadWanted = false

    /// Creates the handler of a client.
    ///
    /// - Parameters:
    ///   - context: A client's context.
    ///   - serverName: The host name or IP address that the certificate must contain; host names are also sent (SNI).
    ///     `nil` only if the host name is not verified.
    /// - Returns: The handler.
    /// - Throws: ``TLSError/serverNameInvalid(_:)``, ``TLSError/trustUnusable(detail:)``,
    ///   ``TLSError/configurationUnusable(detail:)`` for a server's context.
    public static func client(_ context: TLSContext, serverName: String?) throws(TLSError) -> TLSHandler {
        try TLSHandler(context, role: .client, serverName: serverName)
    }

    /// Creates the handler of a server.
    ///
    /// - Parameter context: A server's context.
    /// - Returns: The handler.
    /// - Throws: ``TLSError/trustUnusable(detail:)``, ``TLSError/configurationUnusable(detail:)`` for a client's
    ///   context.
    public static func server(_ context: TLSContext) throws(TLSError) -> TLSHandler {
        try TLSHandler(context, role: .server, serverName: nil)
    }

    /// Creates the handler of a client, with a context of its own.
    ///
    /// For many connections, create one ``TLSContext``: it loads the certificates once, and resumes its sessions.
    ///
    /// - Parameters:
    ///   - configuration: A client's configuration.
    ///   - serverName: The host name or IP address that the certificate must contain; host names are also sent (SNI).
    ///     `nil` only if the host name is not verified.
    /// - Returns: The handler.
    /// - Throws: ``TLSError`` if the configuration or the name cannot be used.
    public static func client(
        _ configuration: TLSConfiguration,
        serverName: String?
    ) throws(TLSError) -> TLSHandler {
        try .client(try TLSContext(configuration), serverName: serverName)
    }

    /// Creates the handler of a server, with a context of its own.
    ///
    /// For many connections, create one ``TLSContext``.
    ///
    /// - Parameter configuration: A server's configuration.
    /// - Returns: The handler.
    /// - Throws: ``TLSError`` if the configuration cannot be used.
    public static func server(_ configuration: TLSConfiguration) throws(TLSError) -> TLSHandler {
        try .server(try TLSContext(configuration))
    }

    private init(_ context: TLSContext, role: TLSConfiguration.Role, serverName: String?) throws(TLSError) {
        guard context.configuration.role == role else {
            throw .configurationUnusable(detail: "the context is for the other end")
        }
        self.configuration = context.configuration
        self.connection = try TLSConnection(context: context, serverName: serverName)
    }

    // MARK: Lifecycle

    /// Starts the handshake if the channel is active.
    public func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { self.start(context) }
    }

    /// Fails everything that is still waiting.
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

    /// Forwards an error of the channel, unless one was reported already.
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

    /// Continues the handshake.
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

    // MARK: Ending

    /// Reports the error, fails everything that is waiting, and closes the channel.
    func fail(_ error: any Error, context: ChannelHandlerContext) {
        if case .ended = self.phase { return }
        let (writes, outputs, closes) = self.takePromises()
        self.collectCiphertext()
        // Sends the alert with the reason, if there is one.
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

    /// Enters the last phase; the caller completes the promises, whose callbacks may call this handler.
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
    /// The maximum number of plaintext bytes that are delivered at a time.
    private static let deliveryByteCountMax = 65_536

    /// Decrypts received data and delivers it.
    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .ended = self.phase { return }
        // Data after close_notify must be ignored (RFC 8446, 6.1).
        if self.isInputClosed { return }
        self.connection.receive(self.unwrapInboundIn(data))
        if case .handshaking = self.phase { self.continueHandshake(context) }
        self.deliver(context)
    }

    /// Forwards the event, and reads more if the next handler wants data and nothing could be delivered.
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

    /// Records that the next handler wants data.
    public func read(context: ChannelHandlerContext) {
        self.isReadWanted = true
        context.read()
    }

    /// Handles the end of the channel's input.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let event = event as? ChannelEvent, event == .inputClosed else {
            context.fireUserInboundEventTriggered(event)
            return
        }
        switch self.phase {
        case .handshaking:
            self.fail(TLSError.closedDuringHandshake(detail: ""), context: context)
        case .open where self.isInputClosed:
            // Already forwarded when close_notify arrived.
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

    /// Decrypts and delivers all received data.
    ///
    /// Makes callbacks; a reentrant call delivers the following data, in order.
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
                // Encryption may have waited for the received data.
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
    /// An operation on the channel that is still to be made, in order.
    enum Outgoing {
        /// One record or several, and the promises of the writes that end in the last one.
        case records(ByteBuffer, RecordPromises)
        /// Closes the channel, or its output, after the data before it.
        case close(CloseMode, EventLoopPromise<Void>?)
    }

    /// The end of a record in the ciphertext, and its content.
    private struct RecordEnd {
        let byteCount: Int
        let plaintextByteCount: Int
        let promises: RecordPromises
    }

    /// The number of plaintext bytes that are encrypted at a time, before the writability of the channel is checked.
    private static let batchByteCount = 131_072

    /// The maximum number of such batches before other tasks of the event loop get a turn.
    private static let batchCountMax = 16

    /// Stores the bytes until they are flushed.
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

    /// Encrypts the written data while the channel is writable.
    public func flush(context: ChannelHandlerContext) {
        // Data written after close was called is not sent.
        guard case .open = self.output else { return }
        self.plaintext.markFlushed()
        self.encryptFlushed(context)
    }

    /// Continues with data that the channel could not accept before.
    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.encryptFlushed(context)
        context.fireChannelWritabilityChanged()
    }

    /// Encrypts flushed bytes while the channel is writable, then sends close_notify if it is due.
    ///
    /// Makes callbacks; a reentrant call leaves the work to the outer call.
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

    /// Encrypts the next batch into records; makes no callbacks.
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
                // Empty writes have no record of their own.
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

    /// Queues the data that OpenSSL wrote, split at the ends of records whose writes have promises.
    ///
    /// Returns all data, whose memory is reused after the channel has written it.
    @discardableResult
    private func collectCiphertext(_ ends: [RecordEnd] = []) -> ByteBuffer {
        var bytes = self.connection.takeCiphertext() ?? ByteBuffer()
        let start = bytes.readableBytes
        var end = 0
        for (index, record) in ends.enumerated() {
            self.recordEnds.append(
                ciphertextByteCount: record.byteCount - end,
                plaintextByteCount: record.plaintextByteCount
            )
            end = record.byteCount
            // Each write to the channel has its cost, and records without promises do not need one of their own.
            guard !record.promises.isEmpty || index == ends.count - 1 else { continue }
            let slice = bytes.readSlice(length: end - (start - bytes.readableBytes)) ?? ByteBuffer()
            self.outgoing.append(.records(slice, record.promises))
        }
        // Handshake messages and alerts do not belong to a write.
        if bytes.readableBytes > 0 {
            self.recordEnds.append(ciphertextByteCount: bytes.readableBytes, plaintextByteCount: 0)
            self.outgoing.append(.records(bytes, RecordPromises()))
        }
        return bytes
    }

    /// Writes everything in the queue to the channel, in order, and flushes.
    ///
    /// Makes callbacks. The outer call sends what reentrant calls add to the queue, so that records stay in order.
    private func send(_ context: ChannelHandlerContext) {
        guard !self.isSending, !self.outgoing.isEmpty else { return }
        self.isSending = true
        while let next = self.outgoing.popFirst() {
            switch next {
            case .records(let bytes, let promises):
                context.write(self.wrapOutboundOut(bytes), promise: promises.joined(on: context.eventLoop))
                if case .records? = self.outgoing.first { continue }
                context.flush()
            case .close(let mode, let promise):
                self.closeChannel(context, mode: mode, promise: promise)
            }
        }
        self.isSending = false
        // Data flushed during callbacks had to wait for this.
        self.encryptFlushed(context)
    }

    /// The number of plaintext bytes in all records, of which the peer can have read no more.
    package var plaintextByteCount: Int { self.recordEnds.plaintextByteCount }

    /// The number of plaintext bytes in records that are complete in the first bytes that the channel wrote; `nil` if
    /// that is not known any more.
    package func plaintextByteCount(inFirst ciphertextByteCount: Int) -> Int? {
        self.recordEnds.plaintextByteCount(inFirst: ciphertextByteCount)
    }

    private func closeChannel(_ context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if case .all = mode, !context.channel.isActive {
            // It was closed meanwhile, which is the requested result.
            promise?.succeed(())
            context.close(promise: nil)
        } else {
            context.close(mode: mode, promise: promise)
        }
    }
}

// MARK: - Closing

extension TLSHandler {
    /// Closes the connection or one side of it, with close_notify if TLS is established.
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
        // Otherwise, without automatic reads, the peer's close_notify would not be read.
        if case .open = self.phase { context.read() }
    }

    /// Sends close_notify if closing was requested and all flushed data is encrypted.
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

    /// Returns whether it was sent; if not, it must wait for data from the peer, or the connection failed.
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

    /// Handles the peer's close_notify.
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

    /// Answers close_notify with close_notify and closes; data that is not encrypted yet is not sent (RFC 5246, 7.2.1).
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

    /// Closes the channel, and fails everything that is still waiting.
    private func finishClosing(_ context: ChannelHandlerContext) {
        if case .ended = self.phase { return }
        let (writes, outputs, closes) = self.takePromises()
        writes.fail(ChannelError.ioOnClosedChannel)
        outputs.fail(ChannelError.ioOnClosedChannel)
        self.outgoing.append(.close(.all, closes.joined(on: context.eventLoop)))
        self.send(context)
    }
}

// MARK: - Negotiated properties

extension TLSHandler {
    /// The peer's certificate; `nil` before the handshake, or if the peer presented none.
    public var peerCertificate: TLSCertificate? { self.connection.peerCertificate }

    /// The certificates that the peer sent after its own, such as those of intermediate authorities; none in a resumed
    /// session.
    public var peerIntermediates: [TLSCertificate] { self.connection.peerIntermediates }

    /// Whether the server requested a client certificate; false before the handshake, and in a resumed session.
    ///
    /// For clients only.
    package var hasCertificateRequest: Bool { self.isHandshakeDone && self.connection.hasCertificateRequest }

    /// The problem of the peer's certificate, if it was accepted despite it; otherwise `nil`.
    ///
    /// - SeeAlso: ``TLSConfiguration/acceptsUnverifiedClientCertificates``.
    public var peerVerificationProblem: TLSError? { self.connection.verificationProblem }

    /// The negotiated TLS version; `nil` before the handshake.
    public var negotiatedVersion: TLSVersion? { self.isHandshakeDone ? self.connection.version : nil }

    /// OpenSSL's name of the negotiated cipher; `nil` before the handshake.
    public var cipherName: String? { self.isHandshakeDone ? self.connection.cipherName : nil }

    /// The negotiated application protocol (ALPN), if any.
    public var negotiatedProtocol: String? { self.connection.applicationProtocol }

    /// Whether the handshake resumed an earlier session.
    public var isSessionReused: Bool { self.connection.isSessionReused }

    /// The host name that the client requested (SNI), if any.
    public var requestedServerName: String? { self.connection.requestedServerName }

    private var isHandshakeDone: Bool { !self.connection.isHandshaking }
}
