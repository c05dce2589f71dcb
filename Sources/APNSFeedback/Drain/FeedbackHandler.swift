// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSSession
import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS

/// Performs the steps of a connection's ``/APNSSession/FeedbackReader``: the last handler of its channel.
///
/// Bytes are collected while earlier ones are written to disk, so a slower disk gets larger writes.
final class FeedbackHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// How a connection ended, and errors of the connection and of delivering its tokens.
    struct ConnectionResult: Sendable {
        /// `nil` if there was no connection.
        var ending: FeedbackEnding?
        var connectionFailure: (any Error)?
        /// The other protocol that the server speaks, if its first bytes show one.
        var foreignProtocol: ForeignProtocol?
        var spoolFailure: (any Error)?
        var importFailure: (any Error)?
    }

    private enum Close {
        case orderly, abrupt
    }

    /// The maximum number of bytes waiting for the disk before reading stops.
    private static let pendingByteCountMax = 262_144

    private let configuration: FeedbackConfiguration
    private let receiver: SpoolReceiver
    private let pool: NIOThreadPool
    private let ended: EventLoopPromise<ConnectionResult>
    private let deadline: NIODeadline

    private var context: ChannelHandlerContext?
    private var reader: FeedbackReader?
    private var timer: Scheduled<Void>?
    private var pending = ByteBuffer()
    private var isSpooling = false
    private var isImporting = false
    /// Why the last bytes could not be written: everything is delivered before more is written.
    private var roomError: (any Error)?
    private var hasRead = false
    private var isReadHeld = false
    private var closeDue: Close?
    private var isInactive = false
    private var isStopped = false
    private var ending = ConnectionResult()

    init(
        _ configuration: FeedbackConfiguration,
        _ receiver: SpoolReceiver,
        pool: NIOThreadPool,
        ended: EventLoopPromise<ConnectionResult>
    ) {
        self.configuration = configuration
        self.receiver = receiver
        self.pool = pool
        self.ended = ended
        self.deadline = .now() + TimeAmount(configuration.readTimeout)
    }

    private static func duration(_ time: NIODeadline) -> Duration { .nanoseconds(Int64(time.uptimeNanoseconds)) }

    private var now: Duration { FeedbackHandler.duration(.now()) }

    /// Stops reading.
    func stop() {
        self.isStopped = true
        guard self.reader != nil else {
            self.context?.channel.close(promise: nil)
            return
        }
        self.run(self.reader?.stop() ?? .ignore)
    }

    /// The connection could not be opened.
    func fail(_ error: any Error) {
        guard !self.isInactive else { return }
        self.ending.connectionFailure = self.ending.connectionFailure ?? error
        self.isInactive = true
        self.endIfIdle()
    }

    private func run(_ step: FeedbackStep) {
        switch step {
        case .spool(let time), .wait(let time): self.wake(at: time)
        case .spoolOnly, .ignore: break
        case .close:
            self.closeDue = .orderly
            self.closeIfDurable()
        case .abort:
            self.closeDue = .abrupt
            self.closeIfDurable()
        case .finish(let ending): self.ending.ending = ending
        }
    }

    /// A timer that fires too early schedules the next one, so it need not be rescheduled for each input.
    private func wake(at time: Duration) {
        guard self.timer == nil, let context = self.context else { return }
        let delay = max(.zero, time - self.now)
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [weak self] in
            guard let self else { return }
            self.timer = nil
            self.run(self.isReadHeld ? .ignore : self.reader?.timePassed(now: self.now) ?? .ignore)
        }
    }

    // MARK: The disk

    private func spoolIfIdle() {
        guard !self.isSpooling, self.pending.readableBytes > 0, let context = self.context else { return }
        let bytes = self.pending
        self.pending = context.channel.allocator.buffer(capacity: 0)
        self.isSpooling = true
        let receiver = self.receiver
        self.pool.runIfActive(eventLoop: context.eventLoop) { try receiver.append(bytes) }
            .assumeIsolated().whenComplete { result in
                switch result {
                case .success: self.spooled()
                case .failure(let error):
                    self.roomError = error
                    self.importIfDue()
                }
            }
    }

    private func spooled() {
        self.isSpooling = false
        self.spoolIfIdle()
        self.importIfDue()
        if self.isReadHeld, self.closeDue == nil, self.pending.readableBytes < FeedbackHandler.pendingByteCountMax {
            self.isReadHeld = false
            self.run(self.reader?.resumed(now: self.now) ?? .ignore)
            self.context?.read()
        }
        self.closeIfDurable()
        self.endIfIdle()
    }

    /// Stops reading, since bytes cannot be stored; those read meanwhile may still be stored after relief.
    private func spoolingFailed(_ error: any Error) {
        self.isSpooling = false
        self.ending.spoolFailure = self.ending.spoolFailure ?? error
        _ = self.reader?.stop()
        self.context?.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        self.spoolIfIdle()
        self.endIfIdle()
    }

    /// Delivers what is on disk when it is enough, or when the disk is full; there is one such task at a time, and the
    /// connection does not end before it.
    private func importIfDue() {
        guard !self.isImporting, let eventLoop = self.context?.eventLoop else { return }
        let receiver = self.receiver
        if let cause = self.roomError {
            self.isImporting = true
            eventLoop.makeFutureWithTask { await receiver.makeRoom() }
                .assumeIsolated().whenSuccess { isRelieved in
                    self.isImporting = false
                    self.roomError = nil
                    if isRelieved { self.spooled() } else { self.spoolingFailed(cause) }
                }
        } else if self.ending.importFailure == nil, receiver.isImportDue {
            self.isImporting = true
            eventLoop.makeFutureWithTask { try await receiver.advance() }
                .assumeIsolated().whenComplete { result in
                    self.isImporting = false
                    // Reading continues: the input is safe in the spool, and is delivered the next time.
                    if case .failure(let error) = result { self.ending.importFailure = error }
                    self.importIfDue()
                    self.endIfIdle()
                }
        }
    }

    private func closeIfDurable() {
        guard let close = self.closeDue, !self.isSpooling, self.pending.readableBytes == 0 else { return }
        self.closeDue = nil
        switch close {
        case .orderly: self.context?.close(promise: nil)
        case .abrupt: self.context?.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        }
    }

    private func endIfIdle() {
        guard self.isInactive, !self.isSpooling, !self.isImporting, self.pending.readableBytes == 0 else { return }
        self.ended.succeed(self.ending)
    }

    // MARK: The connection

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if self.isStopped { context.close(promise: nil) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted:
            let reader = FeedbackReader(
                silence: self.configuration.idleTimeout,
                deadline: FeedbackHandler.duration(self.deadline),
                requiresCloseNotify: self.configuration.requiresCloseNotify,
                byteCountMax: self.configuration.byteCountMax,
                now: self.now
            )
            self.reader = reader
            self.run(reader.begin())
        case ChannelEvent.inputClosed: self.run(self.reader?.peerClosed() ?? .ignore)
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = self.unwrapInboundIn(data)
        guard self.ending.spoolFailure == nil, self.ending.foreignProtocol == nil else { return }
        let now = self.now
        let step = unsafe bytes.withUnsafeReadableBytes { unsafe self.reader?.received($0, now: now) ?? .ignore }
        guard step != .ignore else { return }
        let isFirst = !self.hasRead
        self.hasRead = true
        if isFirst, self.reader?.isMalformedAtStart == true, let found = ForeignProtocol(bytes.readableBytesView) {
            // This is no list, so nothing of it is kept.
            self.ending.foreignProtocol = found
            return self.run(.abort)
        }
        self.configuration.onRead?(bytes.readableBytes)
        self.pending.writeBuffer(&bytes)
        self.run(step)
        self.spoolIfIdle()
    }

    func read(context: ChannelHandlerContext) {
        // Otherwise a service that never ends would delay indefinitely what waits for all input to be on disk.
        if self.closeDue != nil || self.pending.readableBytes >= FeedbackHandler.pendingByteCountMax {
            self.isReadHeld = true
        } else {
            context.read()
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.ending.connectionFailure = self.ending.connectionFailure ?? error
        if case TLSError.truncated = error {
            _ = self.reader?.truncated(now: self.now)
        } else {
            _ = self.reader?.failed()
        }
        // TLS closes the channel after its errors; other handlers may leave it open.
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.run(self.reader?.connectionClosed() ?? .ignore)
        self.isInactive = true
        self.endIfIdle()
        context.fireChannelInactive()
    }
}
