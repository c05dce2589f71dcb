// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// The handlers that carry out faults of the binary protocol, by the number of their connection.
final class ConnectionFaults: Sendable {
    /// Those of one connection; on its event loop.
    struct Handlers {
        let throttle = ReadThrottleHandler()
        let report = FaultReportHandler()
    }

    private let handlers = NIOLockedValueBox<[UInt64: NIOLoopBound<Handlers>]>([:])

    /// Adds the handlers to the pipeline of a connection; called on its event loop.
    func add(to channel: any Channel, number: UInt64) throws {
        let handlers = Handlers()
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(handlers.throttle, position: .first)
        try pipeline.addHandler(handlers.report, position: .after(try pipeline.handler(type: TLSHandler.self)))
        let bound = NIOLoopBound(handlers, eventLoop: channel.eventLoop)
        self.handlers.withLockedValue { $0[number] = bound }
        channel.closeFuture.whenComplete { _ in self.handlers.withLockedValue { $0[number] = nil } }
    }

    /// The handlers of a connection; called on its event loop.
    func handlers(of number: UInt64) -> Handlers? {
        self.handlers.withLockedValue { $0[number] }?.value
    }
}
