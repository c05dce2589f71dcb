// SPDX-License-Identifier: Apache-2.0

public import APNSServer
import APNSTransport
public import APNSWire
import NIOCore
import NIOHTTP2

/// One thing that goes wrong at the simulator's HTTP/2 listener.
public struct PushFault: Hashable, Sendable {
    /// When it happens.
    public enum Trigger: Hashable, Sendable {
        /// At each request for this token.
        case token(DeviceToken)
        /// At the request with this number on its connection, from 1.
        case request(UInt64)
        /// At the request with this number among those of all connections, from 1.
        case requestOverall(UInt64)
        /// At each request: a storm, as long as ``PushFault/occurrenceCountMax`` says.
        case always
    }

    /// What happens.
    public enum Effect: Hashable, Sendable {
        /// The service answers so.
        case reply(PushReply)
        /// There is no answer ever.
        case silence
        /// The stream is ended with a code of HTTP/2.
        case reset(code: Int)
        /// The connection is cut without a word.
        case cut
    }

    /// When it happens.
    public var trigger: Trigger

    /// What happens.
    public var effect: Effect

    /// How often it happens at most; `nil`, the default, for each time.
    public var occurrenceCountMax: Int?

    /// Makes a fault.
    ///
    /// - Parameters:
    ///   - trigger: when it happens.
    ///   - effect: what happens.
    ///   - occurrenceCountMax: how often it happens at most; by default each time.
    public init(at trigger: Trigger, _ effect: Effect, occurrenceCountMax: Int? = nil) {
        self.trigger = trigger
        self.effect = effect
        self.occurrenceCountMax = occurrenceCountMax
    }
}

extension PushFault.Effect {
    /// Makes it happen, below the handler of the service.
    ///
    /// - Parameter ticket: that of the request.
    /// - Returns: what the service answers; `nil` for nothing.
    package func carryOut(_ ticket: PushTicket) -> PushReply? {
        switch self {
        case .reply(let reply): return reply
        case .silence: break
        case .reset(let code):
            let end = HTTP2Frame.FramePayload.rstStream(HTTP2ErrorCode(networkCode: code))
            let frame = HTTP2Frame(streamID: HTTP2StreamID(Int(ticket.stream)), payload: end)
            ticket.channel.writeAndFlush(frame, promise: nil)
        case .cut: ticket.channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        }
        return nil
    }
}

extension PushFault: ScheduledFault {
    func occasion() -> FaultOccasion {
        switch self.trigger {
        case .token(let token): .token(token)
        case .request(let number): .message(number)
        case .requestOverall(let number): .messageOverall(number)
        case .always: .anyMessage
        }
    }
}
