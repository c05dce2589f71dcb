// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import APNSWire
import NIOCore
import NIOTLS
import OpenSSLTLS

/// One connection of a worker: the last handler of its channel.
final class BinaryConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let number: ConnectionNumber
    private weak var worker: BinaryConnectionWorker?
    private let observer: DeliveryObserver
    private var context: ChannelHandlerContext?
    /// All open channels of this connection, including those whose pipeline does not contain it yet.
    private var channels: [ObjectIdentifier: any Channel] = [:]
    private var received = ByteBuffer()
    private var failure: (any Error)?
    private var isConnected = false
    private var isOver = false
    private var hasAnswer = false
    /// Closes the connection if an unexpected answer remains too short to recognize it.
    private var answerTimer: Scheduled<Void>?
    private var isClosing = false

    /// How long to wait for the rest of an unexpected answer that is too short to recognize it.
    private static let responseTimeout = TimeAmount.seconds(1)

    /// When to give up the connection, since the channel accepts no bytes.
    var stall: StallDeadline

    /// The TLS handler, once the channel has it.
    var tls: TLSHandler?

    init(
        number: ConnectionNumber,
        worker: BinaryConnectionWorker,
        observer: DeliveryObserver,
        stallDurationMax: Duration
    ) {
        self.number = number
        self.stall = StallDeadline(durationMax: stallDurationMax)
        self.observer = observer
        self.worker = worker
    }

    /// Whether the channel is writable.
    var isWritable: Bool { self.context?.channel.isWritable ?? false }

    /// The number of written bytes in TLS records that this system accepted completely, or in all of them where it does
    /// not tell.
    var sentByteCount: Int {
        guard let tls = self.tls else { return 0 }
        // Bytes to a proxy come before those of TLS, so that the count may only be too large.
        let accepted = self.socket?.acceptedCount.flatMap { tls.plaintextByteCount(inFirst: $0) }
        return accepted ?? tls.plaintextByteCount
    }

    /// The number of written bytes in TLS records that this system has sent completely, if the connection was reset, so
    /// that it sends no more; otherwise `nil`.
    private(set) var finalByteCount: Int?
    private var socket: RetainedSocket?

    /// Whether written data must be flushed.
    private(set) var isFlushDue = false

    func write(_ frames: ByteBuffer) {
        guard let context = self.context else { return }
        self.isFlushDue = true
        context.write(self.wrapOutboundOut(frames), promise: nil)
    }

    func flush() {
        guard self.isFlushDue, let context = self.context else { return }
        self.isFlushDue = false
        context.flush()
    }

    /// Closes the connection; afterwards it reports nothing but that it has closed.
    ///
    /// Returns whether there is a channel, which will report that.
    func close() -> Bool {
        self.isOver = true
        guard !self.channels.isEmpty else { return false }
        self.isClosing = true
        for channel in self.channels.values { channel.close(promise: nil) }
        return true
    }

    /// Attaches a channel that is about to be connected.
    ///
    /// - Throws: an error if the connection is no longer needed; the channel is then closed.
    func attach(_ channel: any Channel) throws {
        guard !self.isOver else { throw ChannelError.ioOnClosedChannel }
        self.channels[ObjectIdentifier(channel)] = channel
        channel.closeFuture.assumeIsolated().whenComplete { _ in self.forget(channel) }
    }

    private func forget(_ channel: any Channel) {
        self.channels[ObjectIdentifier(channel)] = nil
        guard self.isClosing, self.channels.isEmpty else { return }
        self.isClosing = false
        self.worker?.hasClosed(self)
    }

    /// The channel could not be opened.
    func fail(_ error: any Error) {
        self.failure = self.failure ?? error
        self.end()
    }

    private func end() {
        guard !self.isOver else { return }
        self.isOver = true
        self.worker?.ended(self, wasConnected: self.isConnected, failure: self.failure)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.socket = RetainedSocket(context.channel)
        if self.isOver { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent, !self.isOver {
            self.isConnected = true
            self.observer.opened()
            self.worker?.connected(self)
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !self.isOver, !self.hasAnswer else { return }
        var bytes = self.unwrapInboundIn(data)
        self.received.writeBuffer(&bytes)
        do {
            guard let response = try ErrorResponse(parsing: &self.received) else { return }
            self.hasAnswer = true
            self.worker?.received(response, on: self)
        } catch {
            let answer = UnexpectedResponse(
                bytes: Array(self.received.readableBytesView.prefix(ForeignProtocol.byteCountMax))
            )
            self.failure = answer
            if answer.foreignProtocol != nil || answer.bytes.count == ForeignProtocol.byteCountMax {
                self.closeAfterAnswer()
            } else if self.answerTimer == nil {
                let eventLoop = context.eventLoop.assumeIsolated()
                self.answerTimer = eventLoop.scheduleTask(in: Self.responseTimeout) { [weak self] in
                    self?.closeAfterAnswer()
                }
            }
        }
    }

    private func closeAfterAnswer() {
        self.hasAnswer = true
        self.answerTimer?.cancel()
        self.context?.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.failure = self.failure ?? error
        // TLS closes the channel after its errors; other handlers may leave it open.
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.answerTimer?.cancel()
        // Bytes to a proxy come before those of TLS, so that the count may only be too large.
        if let count = self.socket?.release() { self.finalByteCount = self.tls?.plaintextByteCount(inFirst: count) }
        if self.isConnected { self.observer.closed() }
        self.end()
        context.fireChannelInactive()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, !self.isOver { self.worker?.becameWritable() }
        context.fireChannelWritabilityChanged()
    }
}
