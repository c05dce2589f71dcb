// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSTransport
import Glibc
package import Logging
package import NIOCore

/// Pauses a listener while the system has no resources for another connection, such as file descriptors.
///
/// Pending connections keep the listener readable, so without a pause its thread would spin on failing accepts.
package final class AcceptPauseHandler: ChannelInboundHandler {
    package typealias InboundIn = Any

    /// How long accepting pauses.
    private static let pause = TimeAmount.seconds(1)

    /// The minimum time between two log messages.
    private static let reportInterval = TimeAmount.seconds(30)

    private let logger: Logger
    private var isPaused = false
    private var nextReport = NIODeadline.uptimeNanoseconds(0)

    private init(_ logger: Logger) { self.logger = logger }

    /// Adds a handler at the start of a listener's pipeline.
    ///
    /// Returns completes when the handler is added.
    package static func add(to listener: any Channel, _ logger: Logger) -> EventLoopFuture<Void> {
        listener.eventLoop.submit {
            try listener.pipeline.syncOperations.addHandler(AcceptPauseHandler(logger), position: .first)
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let code = (error as? IOError)?.errnoCode, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(code) else {
            // A connection that was not accepted must not end the listener, which an error would do for an asynchronous
            // sequence of connections. If the listener itself fails, its channel closes.
            self.report("connection not accepted", [LogKey.refusalReason: "\(error)"])
            return
        }
        guard !self.isPaused else { return }
        self.isPaused = true
        // An outstanding read would keep the listener registered for reads.
        self.setReading(false, context)
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) {
            self.isPaused = false
            self.setReading(true, context)
        }
        self.report(
            "accepting connections paused",
            [LogKey.refusalReason: "\(SystemLimit.sentence(code))", LogKey.refusalDuration: "\(Duration(Self.pause))"]
        )
    }

    private func report(_ message: Logger.Message, _ metadata: Logger.Metadata) {
        let now = NIODeadline.now()
        guard now >= self.nextReport else { return }
        self.nextReport = now + Self.reportInterval
        self.logger.error(message, metadata: metadata)
    }

    private func setReading(_ isReading: Bool, _ context: ChannelHandlerContext) {
        // Fails if the listener is closed, which needs no handling.
        try? context.channel.syncOptions?.setOption(.autoRead, value: isReading)
    }
}
