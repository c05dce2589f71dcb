// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON
import NIOCore
import NIOTLS

/// Placed above TLS; applies connection faults after the handshake.
final class ConnectionFaultHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let listener: SimulatorListener
    private let number: UInt64
    private let schedule: FaultSchedule
    private let throttle: ReadThrottleHandler
    /// The handler that writes a feedback list; `nil` for other protocols.
    private let list: FeedbackFaultHandler?
    private var isRefused = false
    /// Writes before the end of the handshake, such as SETTINGS; `nil` afterwards.
    private var held: [(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)]? = []

    init(
        _ listener: SimulatorListener,
        number: UInt64,
        schedule: FaultSchedule,
        throttle: ReadThrottleHandler,
        list: FeedbackFaultHandler?
    ) {
        self.listener = listener
        self.number = number
        self.schedule = schedule
        self.throttle = throttle
        self.list = list
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .handshakeCompleted? = event as? TLSUserEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        if case .slowReading(let pace) = self.fault(.reading)?.effect {
            self.throttle.setPace(pace)
        } else {
            self.throttle.setPace(nil)
        }
        if case .slowWriting(let pace) = self.fault(.writing)?.effect { self.list?.setPace(pace) }
        if let fault = self.fault(.list), case .cutList(let byteCount) = fault.effect {
            self.list?.cut(behind: byteCount, fault.report.ending)
        }
        if let fault = self.fault(.settings), case .goAwayFirst(let reason) = fault.effect {
            self.dropHeld()
            context.write(self.wrapOutboundOut(Self.goAway(reason)), promise: nil)
            return self.refuse(fault.report, context)
        }
        self.writeHeld(context)
        // The backend of the binary protocol applies this fault, since it counts connections.
        if self.listener != .binary, let fault = self.fault(.admission) { return self.refuse(fault.report, context) }
        context.fireUserInboundEventTriggered(event)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.dropHeld() }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !self.isRefused else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        guard self.held == nil else {
            self.held?.append((self.unwrapOutboundIn(data), promise))
            return
        }
        context.write(data, promise: promise)
    }

    private func writeHeld(_ context: ChannelHandlerContext) {
        guard let held = self.held else { return }
        self.held = nil
        for (bytes, promise) in held { context.write(self.wrapOutboundOut(bytes), promise: promise) }
        if !held.isEmpty { context.flush() }
    }

    private func dropHeld() {
        for (_, promise) in self.held ?? [] { promise?.fail(ChannelError.ioOnClosedChannel) }
        self.held = nil
    }

    /// Discards the input of a refused connection, however long its end takes.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !self.isRefused { context.fireChannelRead(data) }
    }

    /// A GOAWAY frame for a connection on which nothing was processed (RFC 9113, section 6.8).
    private static func goAway(_ reason: PushReason) -> ByteBuffer {
        let text = JSONObject { $0.add("reason", reason.text) }.text
        var frame = ByteBuffer()
        // The last stream identifier, and the code NO_ERROR.
        let byteCount = 8 + text.utf8.count
        frame.writeInteger(UInt8(truncatingIfNeeded: byteCount >> 16))
        frame.writeInteger(UInt16(truncatingIfNeeded: byteCount))
        frame.writeBytes([7, 0, 0, 0, 0, 0])
        frame.writeBytes([0, 0, 0, 0, 0, 0, 0, 0])
        frame.writeString(text)
        return frame
    }

    private func fault(_ stage: FaultStage) -> Fault? {
        self.schedule.fault(stage, at: self.listener, connection: self.number)
    }

    /// Ends the connection; handlers above do not see its handshake.
    private func refuse(_ report: FaultReport, _ context: ChannelHandlerContext) {
        self.isRefused = true
        let channel = context.channel
        // An empty write completes when everything before it is sent, so that the provider gets its handshake first.
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer())).whenSuccess {
            channel.eventLoop.scheduleTask(in: TimeAmount(report.delay)) { report.ending.end(channel) }
        }
    }
}
