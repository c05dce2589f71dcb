// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import APNSWire
import Logging
import NIOCore
import OpenSSLTLS

/// Performs the steps of one provider session, on one event loop.
///
/// Not thread-safe: created and used on its event loop.
final class BinaryConnectionWorker: ConnectionWorker {
    private let configuration: BinaryConfiguration
    private let transport: BinaryTransport
    private let source: any NotificationSource
    private let eventLoop: any EventLoop
    private let finished: EventLoopPromise<WorkerEnding>
    private let storeByteCountMax: Int

    private var session: ProviderSession
    private var store = FrameStore()
    private var connections: [ConnectionNumber: BinaryConnection] = [:]
    private var timer: Scheduled<Void>?
    private var isDriving = false
    private var mustDriveAgain = false
    private var isFinished = false
    private var ending: ProviderEnding?
    private var closingCount = 0
    private var lastFailure: ConnectionFailure?
    /// The last reported state of the connections.
    private var outage: ConnectionFailure?
    private var isCautious = false
    private let start = NIODeadline.now()

    /// The number of batches to write before other work of the event loop gets its turn.
    private static let writesInARowMax = 32

    /// The number of batches per flush.
    private static let writesAtOnceMax = 2

    init(
        _ transport: BinaryTransport,
        _ source: any NotificationSource,
        eventLoop: any EventLoop,
        finished: EventLoopPromise<WorkerEnding>
    ) {
        let configuration = transport.configuration
        self.configuration = configuration
        self.transport = transport
        self.source = source
        self.eventLoop = eventLoop
        self.finished = finished
        self.session = ProviderSession(limits: configuration.sessionLimits)
        self.storeByteCountMax = configuration.storeByteCountMax / configuration.connectionCount
    }

    /// The names that the texts of failures contain.
    var names: TLSErrorNames { self.transport.opener.names }

    private var now: Duration { Duration(NIODeadline.now() - self.start) }

    private var jitter: Double { Double.random(in: 0...1) }

    /// Starts, unless the source has ended.
    func begin() {
        guard !self.isFinished else { return }
        if self.askSource() == .ended { self.session.supply(.ended) }
        self.advance()
    }

    /// Checks the source for notifications.
    func wake() {
        guard !self.isFinished else { return }
        // Do not open a connection only to learn that there are no more notifications.
        self.session.supply(self.source.isEnded ? .ended : self.session.isAtRest ? self.askSource() : .available)
        self.advance()
    }

    /// Asks the source whether more notifications are available, without requesting any.
    private func askSource() -> ProviderSupply {
        self.store.fetch(
            from: self.source,
            number: self.session.nextNumber,
            countMax: 0,
            command: self.configuration.command,
            identifier: 0
        ).supply
    }

    /// Makes a checkpoint for what was sent and what the source has now.
    func checkpoint() {
        guard !self.isFinished else { return }
        if self.session.settled < self.session.nextNumber || self.askSource() == .available {
            self.session.checkpoint()
        }
        self.wake()
    }

    /// Stops immediately.
    func abandon() {
        self.session.abandon()
        self.advance()
    }

    /// Performs the steps of the session until one is to wait.
    func advance() {
        guard !self.isFinished else { return }
        guard !self.isDriving else {
            self.mustDriveAgain = true
            return
        }
        self.isDriving = true
        var writes = 0
        repeat {
            self.mustDriveAgain = false
            while writes < BinaryConnectionWorker.writesInARowMax, self.carryOutStep(&writes) {
                if writes.isMultiple(of: BinaryConnectionWorker.writesAtOnceMax) { self.flush() }
                self.deliver()
            }
            self.flush()
            self.deliver()
        } while self.mustDriveAgain && writes < BinaryConnectionWorker.writesInARowMax
        self.isDriving = false
        self.reportTrouble()
        if writes >= BinaryConnectionWorker.writesInARowMax { self.advanceLater() }
    }

    /// Logs and reports changes of the state of a service.
    private func reportTrouble() {
        let outage = self.session.outage
        if outage != self.outage {
            self.outage = outage
            self.source.connectionsChanged(outage)
        }
        guard self.session.isCautious != self.isCautious else { return }
        self.isCautious = self.session.isCautious
        if self.isCautious {
            let text = "too many consecutive invalid tokens, sending one notification at a time until one is accepted"
            self.transport.logger.warning("\(text)")
        } else {
            self.transport.logger.notice("a notification was accepted, resuming normal sending")
        }
    }

    /// Reports when the next attempt to connect begins, if a connection failed.
    private func reportRetry() {
        let (count, delay) = (self.session.failures.silentCount, self.session.connectNotBefore - self.now)
        guard count > 0, delay > .zero, self.connections.isEmpty else { return }
        let limits = self.configuration.limits
        let countMax = limits.life == .batch ? limits.fruitlessConnectionCountMax : nil
        self.transport.observer.retries(count, failureCountMax: countMax, after: delay)
    }

    /// Flushes what was written.
    private func flush() {
        for connection in self.connections.values where connection.isFlushDue { connection.flush() }
    }

    /// Returns whether to request the next step immediately.
    private func carryOutStep(_ writes: inout Int) -> Bool {
        switch self.session.step(now: self.now) {
        case .connect(let number): self.connect(number)
        case .write(let number, let numbers, let identifier):
            guard let connection = self.connections[number], connection.isWritable else {
                self.awaitWritability(number)
                return false
            }
            writes += 1
            return self.write(numbers, identifier, to: connection)
        case .probe(let number, let identifier):
            self.transport.observer.probed()
            self.connections[number]?.write(self.probe(identifier))
        case .close(let number): self.close(number)
        case .wait(let time):
            self.reportRetry()
            self.schedule(time)
            return false
        case .finish(let ending):
            self.finish(ending)
            return false
        }
        return true
    }

    private func write(_ numbers: Range<UInt64>, _ identifier: UInt32, to connection: BinaryConnection) -> Bool {
        if numbers.lowerBound < self.session.nextNumber {
            let countMax = min(numbers.upperBound, self.session.nextNumber) - numbers.lowerBound
            let (frames, count) = self.store.frames(
                from: numbers.lowerBound,
                countMax: countMax,
                identifier: identifier
            )
            self.session.wrote(UInt64(count), now: self.now)
            connection.write(frames)
            return count > 0
        }
        let fetched = self.store.fetch(
            from: self.source,
            number: numbers.lowerBound,
            countMax: numbers.count,
            command: self.configuration.command,
            identifier: identifier
        )
        self.session.supply(fetched.supply)
        if fetched.count > 0 {
            self.session.wrote(UInt64(fetched.count), now: self.now)
            self.updateStoreIsFull()
            connection.write(fetched.frames)
        }
        return true
    }

    private func probe(_ identifier: UInt32) -> ByteBuffer {
        var frame = ByteBuffer()
        let probe = NotificationFrame.probe(identifier: identifier, command: self.configuration.command)
        // A probe has no payload, so encoding cannot fail.
        try? probe.write(into: &frame)
        return frame
    }

    private func updateStoreIsFull() {
        self.session.isStoreFull =
            self.store.byteCount + FrameStore.chunkByteCount > self.storeByteCountMax && self.store.byteCount > 0
    }

    /// Reports outcomes.
    private func deliver() {
        guard self.session.hasSettlements else { return }
        for settlement in self.session.takeSettlements() {
            self.transport.observer.settled(settlement)
            self.store.settle(settlement, to: self.source)
        }
        self.updateStoreIsFull()
    }

    private func schedule(_ time: Duration?) {
        self.timer?.cancel()
        self.timer = nil
        guard let time else { return }
        let bound = NIOLoopBound(self, eventLoop: self.eventLoop)
        self.timer = self.eventLoop.scheduleTask(deadline: self.start + TimeAmount(time)) { bound.value.advance() }
    }

    private func advanceLater() {
        let bound = NIOLoopBound(self, eventLoop: self.eventLoop)
        self.eventLoop.execute { bound.value.advance() }
    }

    /// Gives up a connection that accepts no bytes for the maximum time of an answer.
    private func awaitWritability(_ number: ConnectionNumber) {
        guard let connection = self.connections[number] else { return }
        let deadline = connection.stall.deadline(at: .now(), progressCount: connection.sentByteCount) - self.start
        let now = self.now
        guard now >= Duration(deadline) else { return self.schedule(Duration(deadline)) }
        self.connections[number] = nil
        self.closing(connection)
        let failure = ConnectionFailure.stalled(connection.stall.durationMax, self.names)
        self.lastFailure = failure
        self.transport.observer.failed(failure)
        // The channel may still send what it has buffered.
        self.session.sent(number, before: .max)
        self.session.closed(number, failure: failure, now: now, jitter: self.jitter)
        self.advanceLater()
    }

    private func finish(_ ending: ProviderEnding) {
        self.ending = ending
        guard self.closingCount == 0, !self.isFinished else { return }
        self.isFinished = true
        self.timer?.cancel()
        self.deliver()
        self.finished.succeed(
            WorkerEnding(
                ending: ending,
                failure: ProviderError(ending, lastFailure: self.lastFailure, self.names),
                hasUnsettled: self.session.hasUnsettled,
                isAnswered: self.session.settled > 0 ? !self.session.isUnanswered : nil
            )
        )
    }
}

// MARK: - Connections

extension BinaryConnectionWorker {
    private func connect(_ number: ConnectionNumber) {
        let connection = BinaryConnection(
            number: number,
            worker: self,
            observer: self.transport.observer,
            stallDurationMax: self.configuration.limits.responseTimeout
        )
        self.connections[number] = connection
        self.transport.observer.connecting()
        self.transport.logger.debug("connecting", metadata: [LogKey.connection: "\(number.rawValue)"])
        let bound = NIOLoopBound(connection, eventLoop: self.eventLoop)
        self.transport.opener.open(
            on: self.eventLoop,
            adopt: { try bound.value.attach($0) },
            finish: { channel, tls in
                bound.value.tls = tls
                try channel.pipeline.syncOperations.addHandlers(tls, bound.value)
            }
        )
        .assumeIsolated().whenFailure { bound.value.fail($0) }
    }

    private func close(_ number: ConnectionNumber) {
        guard let connection = self.connections.removeValue(forKey: number) else { return }
        self.closing(connection)
        self.session.closed(number, now: self.now, jitter: self.jitter)
    }

    private func closing(_ connection: BinaryConnection) {
        // Counted first, since it may close immediately.
        self.closingCount += 1
        if !connection.close() { self.closingCount -= 1 }
    }

    /// A connection has closed on request.
    func hasClosed(_ connection: BinaryConnection) {
        self.closingCount -= 1
        if let ending = self.ending { self.finish(ending) }
    }

    /// The handshake is complete.
    func connected(_ connection: BinaryConnection) {
        guard self.connections[connection.number] != nil else { return }
        let metadata: Logger.Metadata = [
            LogKey.connection: "\(connection.number.rawValue)",
            LogKey.isSessionReused: "\(connection.tls?.isSessionReused ?? false)",
        ]
        self.transport.logger.debug("connected", metadata: metadata)
        self.session.connected(connection.number, now: self.now)
        self.advance()
    }

    /// The gateway answered.
    func received(_ response: ErrorResponse, on connection: BinaryConnection) {
        guard self.connections[connection.number] != nil else { return }
        let metadata: Logger.Metadata = [
            LogKey.connection: "\(connection.number.rawValue)", LogKey.errorStatus: "\(response.status.rawValue)",
            LogKey.identifier: "\(response.identifier)",
        ]
        self.transport.logger.debug("error response", metadata: metadata)
        self.reportSent(connection)
        self.session.received(response, on: connection.number, now: self.now, jitter: self.jitter)
        self.advance()
    }

    /// The connection ended.
    func ended(_ connection: BinaryConnection, wasConnected: Bool, failure error: (any Error)?) {
        guard self.connections.removeValue(forKey: connection.number) != nil else { return }
        var metadata: Logger.Metadata = [LogKey.connection: "\(connection.number.rawValue)"]
        let failure = error.map { ConnectionFailure($0, self.names) }
        if let failure {
            self.lastFailure = failure
            metadata[LogKey.failure] = "\(failure)"
            self.transport.observer.failed(failure)
        }
        self.transport.logger.debug("connection ended", metadata: metadata)
        let reason = failure ?? .closed(self.names)
        let isPermanent = reason.isPermanent && self.configuration.endsWhenRefused
        let isUnprocessed = error.map { ConnectionFailure.provesNothingProcessed($0, connection.tls) } ?? false
        if wasConnected { self.reportSent(connection) }
        let finalCount = connection.finalByteCount.map { self.store.count(from: self.session.settled, withinBytes: $0) }
        self.session.closed(
            connection.number,
            failure: reason,
            permanently: isPermanent,
            isUnprocessed: isUnprocessed,
            sentBefore: finalCount.map { self.session.settled + $0 },
            now: self.now,
            jitter: self.jitter
        )
        self.advance()
    }

    /// The channel is writable again.
    func becameWritable() {
        self.advance()
    }

    /// Reports to the session how many frames the kernel accepted completely.
    private func reportSent(_ connection: BinaryConnection) {
        let base = self.session.settled
        let count = self.store.count(from: base, withinBytes: connection.sentByteCount)
        self.session.sent(connection.number, before: base + count)
    }
}
