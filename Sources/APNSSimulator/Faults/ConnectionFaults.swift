// SPDX-License-Identifier: Apache-2.0

package import APNSServer
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// Adds the handlers for faults to the connections of a simulator's listeners.
package final class ConnectionFaults: Sendable {
    let schedule: FaultSchedule
    /// The handlers of connections of the binary protocol, which are controlled later, on their event loops.
    private let reportHandlers = NIOLockedValueBox<[UInt64: NIOLoopBound<FaultReportHandler>]>([:])

    private let isOutage: @Sendable () -> Bool

    init(_ schedule: FaultSchedule, isOutage: @escaping @Sendable () -> Bool = { false }) {
        self.schedule = schedule
        self.isOutage = isOutage
    }

    /// - Throws: ``SimulatorError/fault(index:reason:)`` for the first invalid fault.
    package convenience init(_ faults: [Fault]) throws(SimulatorError) {
        self.init(try FaultSchedule(faults.map { PlannedFault($0) }))
    }

    /// Applies connection faults at a listener.
    package func configure(_ configuration: inout ListenerConfiguration, as listener: SimulatorListener) {
        configuration.configurePipeline = { try self.add(to: $0, number: $1, listener) }
    }

    /// Adds the handlers to the pipeline of a connection; called on its event loop.
    private func add(to channel: any Channel, number: UInt64, _ listener: SimulatorListener) throws {
        let fault = self.schedule.fault(.accept, at: listener, connection: number)
        guard fault == nil, !self.isOutage() else { throw ChannelError.eof }
        let pipeline = channel.pipeline.syncOperations
        let throttle = ReadThrottleHandler()
        let list = listener == .feedback ? FeedbackFaultHandler() : nil
        let connection = ConnectionFaultHandler(
            listener,
            number: number,
            schedule: self.schedule,
            throttle: throttle,
            list: list
        )
        let tls = try pipeline.handler(type: TLSHandler.self)
        try pipeline.addHandler(throttle, position: .first)
        if self.schedule.hasFaults(.reading, at: listener), let options = channel.syncOptions {
            try throttle.awaitPace(options)
        }
        if let list { try pipeline.addHandler(list, position: .after(tls)) }
        if listener == .binary { try self.addReport(to: channel, number, behind: tls) }
        try pipeline.addHandler(connection, position: .after(tls))
    }

    private func addReport(to channel: any Channel, _ number: UInt64, behind tls: TLSHandler) throws {
        let handler = FaultReportHandler()
        try channel.pipeline.syncOperations.addHandler(handler, position: .after(tls))
        let bound = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.reportHandlers.withLockedValue { $0[number] = bound }
        channel.closeFuture.whenComplete { _ in self.reportHandlers.withLockedValue { $0[number] = nil } }
    }

    /// The handler of a connection of the binary protocol; called on its event loop.
    func reportHandler(of number: UInt64) -> FaultReportHandler? {
        self.reportHandlers.withLockedValue { $0[number] }?.value
    }
}
