// SPDX-License-Identifier: Apache-2.0

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
            context.fireErrorCaught(error)
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
        let now = NIODeadline.now()
        guard now >= self.nextReport else { return }
        self.nextReport = now + Self.reportInterval
        self.logger.error(
            "no connection accepted for a while",
            metadata: [
                LogKey.reason: "\(SystemLimit.sentence(code))", LogKey.duration: "\(Duration(Self.pause))",
            ]
        )
    }

    private func setReading(_ isReading: Bool, _ context: ChannelHandlerContext) {
        // Fails where the listener is closed, and then there is nothing to do.
        try? context.channel.syncOptions?.setOption(.autoRead, value: isReading)
    }
}
