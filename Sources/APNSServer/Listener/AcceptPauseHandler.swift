// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSTransport
import Glibc
package import Logging
package import NIOCore

/// Stops a listener for a while where the system has no room for another connection, such as no descriptor.
///
/// What waits to be accepted keeps the listener readable, so without a pause a thread would do nothing but fail.
package final class AcceptPauseHandler: ChannelInboundHandler {
    package typealias InboundIn = Any

    /// How long nothing is accepted; then it is tried again.
    private static let pause = TimeAmount.seconds(1)

    /// At most one report is made in this time.
    private static let reportInterval = TimeAmount.seconds(30)

    private let logger: Logger
    private var isPaused = false
    private var nextReport = NIODeadline.uptimeNanoseconds(0)

    private init(_ logger: Logger) { self.logger = logger }

    /// Puts a handler into the pipeline of a listener, where it is the first.
    ///
    /// - Parameters:
    ///   - listener: accepts connections.
    ///   - logger: is told why nothing is accepted.
    /// - Returns: completes when it is there.
    package static func add(to listener: any Channel, _ logger: Logger) -> EventLoopFuture<Void> {
        listener.eventLoop.submit {
            try listener.pipeline.syncOperations.addHandler(AcceptPauseHandler(logger), position: .first)
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let code = (error as? IOError)?.errnoCode, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(code) else {
            // One connection that was not accepted is not the end of a listener, which it would be for what takes
            // connections as a sequence. Where the listener itself failed, its channel closes.
            self.report("connection not accepted", [LogKey.refusalReason: "\(error)"])
            return
        }
        guard !self.isPaused else { return }
        self.isPaused = true
        // An outstanding read would leave the listener registered for what it cannot take.
        self.setReading(false, context)
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) {
            self.isPaused = false
            self.setReading(true, context)
        }
        self.report(
            "no connection accepted for a while",
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
        // Fails where the listener is closed, and then there is nothing to do.
        try? context.channel.syncOptions?.setOption(.autoRead, value: isReading)
    }
}
