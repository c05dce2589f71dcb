// SPDX-License-Identifier: Apache-2.0

package import APNSServer
import APNSWire
import NIOCore
import NIOHTTP2

extension Fault {
    /// The explanation of a rejection by a fault; the log of the faults names the fault.
    static let rejectionDetail = "a planned fault"

    /// Applies the fault to a request over HTTP/2, after the delay of its report.
    ///
    /// Returns the response; `nil` for none, or for a later one.
    func carryOut(_ ticket: PushTicket) -> PushReply? {
        // Later requests are not processed, even if the response is delayed.
        if self.effect.endsConnection { ticket.stopAccepting() }
        guard self.report.delay > .zero else { return self.effect.carryOut(ticket, ending: self.report.ending) }
        ticket.channel.eventLoop.scheduleTask(in: TimeAmount(self.report.delay)) {
            guard let reply = self.effect.carryOut(ticket, ending: self.report.ending) else { return }
            ticket.reply(reply)
        }
        return nil
    }
}

extension Fault.Effect {
    /// Whether later requests of the connection are not processed.
    fileprivate var endsConnection: Bool {
        switch self {
        case .goAway, .closeBefore, .closeAfter: true
        default: false
        }
    }

    /// Applies the effect to a request over HTTP/2, below the handler of the service.
    ///
    /// Returns the response; `nil` for none.
    package func carryOut(_ ticket: PushTicket, ending: FaultReport.Ending) -> PushReply? {
        switch self {
        case .reject(.http2(let rejection)): return .explained(rejection, detail: Fault.rejectionDetail)
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
            // Responses to earlier requests are not lost.
            ticket.channel.flush()
            ending.end(ticket.channel)
        case .reject(.binary), .ignore, .delay, .refuseHandshake, .refuseConnection, .goAwayFirst, .slowReading,
            .errorResponse, .slowWriting, .cutList:
            break
        }
        return nil
    }
}
