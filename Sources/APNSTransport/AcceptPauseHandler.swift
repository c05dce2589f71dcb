// SPDX-License-Identifier: Apache-2.0

import Glibc
package import NIOCore

/// Stops a listener for a while where the system has no room for another connection, such as no descriptor.
///
/// What waits to be accepted keeps the listener readable, so without a pause a thread would do nothing but fail.
package final class AcceptPauseHandler: ChannelInboundHandler {
    package typealias InboundIn = Any

    /// How long nothing is accepted; then it is tried again.
    package static let pause = TimeAmount.seconds(1)

    /// At most one report is made in this time.
    package static let reportInterval = TimeAmount.seconds(30)

    private let report: @Sendable (_ reason: String) -> Void
    private var isPaused = false
    private var nextReport = NIODeadline.uptimeNanoseconds(0)

    /// Makes a handler for the pipeline of a listener, where it has to be the first.
    ///
    /// - Parameter report: is told why nothing is accepted, on the event loop.
    package init(report: @escaping @Sendable (_ reason: String) -> Void) { self.report = report }

    /// Puts a handler into the pipeline of a listener.
    package static func add(
        to listener: any Channel,
        report: @escaping @Sendable (_ reason: String) -> Void
    ) -> EventLoopFuture<Void> {
        listener.eventLoop.submit {
            try listener.pipeline.syncOperations.addHandler(AcceptPauseHandler(report: report), position: .first)
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
        self.report(SystemLimit.sentence(code))
    }

    private func setReading(_ isReading: Bool, _ context: ChannelHandlerContext) {
        // Fails where the listener is closed, and then there is nothing to do.
        try? context.channel.syncOptions?.setOption(.autoRead, value: isReading)
    }
}
