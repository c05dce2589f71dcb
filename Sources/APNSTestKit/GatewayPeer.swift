// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Glibc
import NIOCore
import NIOTLS

/// Follows the script of a ``ScriptedGateway`` on one connection.
final class GatewayPeer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let number: Int
    private let script: GatewayScript
    private let recorder: ScriptedGateway.Recorder
    private var bytes = ByteBuffer()
    private var index = 0
    private var hasSpoken = false

    /// How long an ended connection is still read.
    private static let drainTimeout = TimeAmount.seconds(5)

    init(number: Int, script: GatewayScript, recorder: ScriptedGateway.Recorder) {
        self.number = number
        self.script = script
        self.recorder = recorder
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent {
            self.recorder.change(self.number) { $0.isHandshakeDone = true }
            switch self.script.opening {
            case .closeAfterHandshake: self.end(context)
            case .neverRead: context.channel.setOption(.autoRead, value: false).whenFailure { _ in }
            case .serve, .closeBeforeHandshake, .neverShakeHands: break
            }
        } else if case .inputClosed = event as? ChannelEvent {
            context.close(promise: nil)
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.script.opening != .neverShakeHands else { return }
        var arrived = self.unwrapInboundIn(data)
        self.bytes.writeBuffer(&arrived)
        do {
            while let frame = try NotificationFrame(parsing: &self.bytes) { self.process(frame, context) }
        } catch {
            self.bytes.clear()
            guard !self.hasSpoken else { return }
            self.recorder.change(self.number) { $0.isMalformed = true }
            self.send(nil, context)
        }
        self.bytes.discardReadBytes()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.recorder.change(self.number) { $0.isClosed = true }
        context.fireChannelInactive()
    }

    private func process(_ frame: NotificationFrame, _ context: ChannelHandlerContext) {
        guard !self.hasSpoken else {
            self.recorder.change(self.number) { $0.discardedCount += 1 }
            return
        }
        guard frame.token != nil else { return self.answerProbe(frame, context) }
        let action = self.script.action(frame, self.index)
        self.index += 1
        self.recorder.change(self.number) {
            if action == .accept { $0.accepted.append(frame) } else { $0.refused = frame }
        }
        switch action {
        case .accept: break
        case .refuse(let status):
            self.send(frame.identifier.map { ErrorResponse(status: status, identifier: $0).bytes }, context)
        case .answer(let response): self.send(response.bytes, context)
        case .send(let bytes): self.send(bytes, context)
        case .ignore: self.send(nil, context)
        }
    }

    private func answerProbe(_ probe: NotificationFrame, _ context: ChannelHandlerContext) {
        let identifier = probe.identifier ?? 0
        self.recorder.change(self.number) { $0.probes.append(identifier) }
        switch self.script.probeReply {
        case .identifier:
            self.send(ErrorResponse(status: .missingDeviceToken, identifier: identifier).bytes, context)
        case .zero: self.send(ErrorResponse(status: .missingDeviceToken, identifier: 0).bytes, context)
        case .never: break
        }
    }

    /// Sends the final bytes after the delay, and ends the connection.
    private func send(_ bytes: [UInt8]?, _ context: ChannelHandlerContext) {
        self.hasSpoken = true
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let isSplit = self.script.splitsAnswer
        context.eventLoop.scheduleTask(in: TimeAmount(self.script.answerDelay)) {
            let (peer, context) = bound.value
            for part in isSplit ? (bytes ?? []).map({ [$0] }) : [bytes ?? []] where !part.isEmpty {
                context.writeAndFlush(peer.wrapOutboundOut(ByteBuffer(bytes: part)), promise: nil)
            }
            peer.end(context)
        }
    }

    private func end(_ context: ChannelHandlerContext) {
        self.hasSpoken = true
        let channel = context.channel
        switch self.script.cut {
        case .orderly:
            context.close(mode: .output, promise: nil)
            context.eventLoop.scheduleTask(in: GatewayPeer.drainTimeout) { channel.close(promise: nil) }
        case .fin: channel.triggerUserOutboundEvent(RawCloseHandler.Cut(keepsInput: true), promise: nil)
        case .reset:
            channel.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: nil)
        case .never: break
        }
    }
}
