// SPDX-License-Identifier: Apache-2.0

package import APNSServer
import APNSWire
import NIOCore
import NIOHTTP2

extension Fault {
    /// Makes it happen to a request over HTTP/2, after the delay of its report.
    ///
    /// - Parameter ticket: that of the request.
    /// - Returns: what the service answers; `nil` for nothing, or for what comes later.
    func carryOut(_ ticket: PushTicket) -> PushReply? {
        // What comes behind it is not processed, also where it takes a while until the provider is told.
        if self.effect.endsConnection { ticket.stopTaking() }
        guard self.report.delay > .zero else { return self.effect.carryOut(ticket, ending: self.report.ending) }
        ticket.channel.eventLoop.scheduleTask(in: TimeAmount(self.report.delay)) {
            guard let reply = self.effect.carryOut(ticket, ending: self.report.ending) else { return }
            ticket.reply(reply)
        }
        return nil
    }
}

extension Fault.Effect {
    /// Whether nothing behind it is processed on its connection.
    fileprivate var endsConnection: Bool {
        switch self {
        case .goAway, .closeBefore, .closeAfter: true
        default: false
        }
    }

    /// Makes it happen to a request over HTTP/2, below the handler of the service.
    ///
    /// - Parameters:
    ///   - ticket: that of the request.
    ///   - ending: how its connection is ended, where it is.
    /// - Returns: what the service answers; `nil` for nothing.
    package func carryOut(_ ticket: PushTicket, ending: FaultReport.Ending) -> PushReply? {
        switch self {
        case .reject(.http2(let rejection)): return .rejected(rejection)
        case .shutDown: return .lastAccepted(.shutdown)
        case .goAway(let reason): return .goingAway(reason)
        case .refuseStream: return .refused
        case .resetStream(let code):
            let end = HTTP2Frame.FramePayload.rstStream(HTTP2ErrorCode(networkCode: Int(code)))
            let frame = HTTP2Frame(streamID: HTTP2StreamID(Int(ticket.stream)), payload: end)
            ticket.channel.writeAndFlush(frame, promise: nil)
        case .limitStreams(let count):
            let limit = HTTP2Setting(parameter: .maxConcurrentStreams, value: count)
            let frame = HTTP2Frame(streamID: .rootStream, payload: .settings(.settings([limit])))
            ticket.channel.writeAndFlush(frame, promise: nil)
        case .closeBefore, .closeAfter:
            // The answers to those before it are not lost.
            ticket.channel.flush()
            ending.end(ticket.channel)
        case .reject(.binary), .ignore, .delay, .refuseHandshake, .refuseConnection, .goAwayFirst, .slowReading,
            .errorResponse, .slowWriting, .cutList:
            break
        }
        return nil
    }
}
