// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOTLS
import OpenSSLTLS

/// The last handler of a pipeline under test, which records events and lets a test wait for them.
final class Observer: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    struct Notes: Sendable {
        /// The events in order; consecutive data is one entry.
        var order: [String] = []
        var received: [UInt8] = []
        var pieceByteCountMax = 0
        var errors: [any Error] = []
        var isActive = false
        var isHandshakeDone = false
        var isInactive = false
        var applicationProtocol: String?
        var facts = Facts()

        var tlsError: TLSError? { self.errors.first as? TLSError }

        var summary: String { "\(self.order), \(self.received.count) bytes, \(self.errors)" }

        mutating func note(_ what: String) {
            if self.order.last != what { self.order.append(what) }
        }
    }

    /// The negotiated properties after the handshake.
    struct Facts: Sendable {
        var certificate: TLSCertificate?
        var problem: TLSError?
        var version: TLSVersion?
        var cipher: String?
        var isReused = false
        var requestedName: String?
    }

    struct DeadlineExceeded: Error, CustomStringConvertible {
        let description: String
    }

    private let observed = ObservedValue(Notes())
    private let onData: (@Sendable (ChannelHandlerContext, ByteBuffer) -> Void)?
    private let onEvent: (@Sendable (ChannelHandlerContext, Any) -> Void)?

    init(
        onData: (@Sendable (ChannelHandlerContext, ByteBuffer) -> Void)? = nil,
        onEvent: (@Sendable (ChannelHandlerContext, Any) -> Void)? = nil
    ) {
        self.onData = onData
        self.onEvent = onEvent
    }

    var notes: Notes { self.observed.current }

    /// Waits until the recorded events meet a condition.
    func wait(
        _ what: String,
        within limit: Duration = .seconds(20),
        until isMet: @escaping @Sendable (Notes) -> Bool
    ) async throws {
        try await self.observed.wait(within: limit, until: isMet) {
            DeadlineExceeded(description: "\(what) did not happen: \($0.summary)")
        }
    }

    private func note(_ change: (inout Notes) -> Void) { self.observed.change(change) }

    func channelActive(context: ChannelHandlerContext) {
        self.note { $0.isActive = true }
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = self.unwrapInboundIn(data)
        self.note {
            $0.note("data")
            $0.pieceByteCountMax = max($0.pieceByteCountMax, buffer.readableBytes)
            $0.received += buffer.readableBytesView
        }
        self.onData?(context, buffer)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(let name):
            let facts = Self.facts(context)
            self.note {
                $0.note("handshake")
                $0.isHandshakeDone = true
                $0.applicationProtocol = name
                $0.facts = facts
            }
        case TLSUserEvent.shutdownCompleted:
            self.note { $0.note("shutdown") }
        case ChannelEvent.inputClosed:
            self.note { $0.note("input closed") }
        default:
            break
        }
        self.onEvent?(context, event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.note {
            $0.note("error")
            $0.errors.append(error)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.note {
            $0.note("inactive")
            $0.isInactive = true
        }
    }

    private static func facts(_ context: ChannelHandlerContext) -> Facts {
        guard let handler = try? context.pipeline.syncOperations.handler(type: TLSHandler.self) else { return Facts() }
        return Facts(
            certificate: handler.peerCertificate,
            problem: handler.peerVerificationProblem,
            version: handler.negotiatedVersion,
            cipher: handler.cipherName,
            isReused: handler.isSessionReused,
            requestedName: handler.requestedServerName
        )
    }
}

extension EventLoopFuture where Value: Sendable {
    /// The value, or an error if it takes too long.
    func get(within limit: TimeAmount) async throws -> Value {
        let promise = self.eventLoop.makePromise(of: Value.self)
        let timer = self.eventLoop.scheduleTask(in: limit) {
            promise.fail(Observer.DeadlineExceeded(description: "no result within \(limit)"))
        }
        self.cascade(to: promise)
        defer { timer.cancel() }
        return try await promise.futureResult.get()
    }
}
