// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import PurgeList

/// Gives the lines of a batch to the connections, and takes what became of them.
///
/// It is asked on event loops, one at a time.
final class SendSource: NotificationSource, @unchecked Sendable {
    // All that changes is in `desk`, which is used under the lock only.
    private let lock = NIOLock()
    private var desk: SendDesk
    /// Out of the lock, which is held while results are written: nobody may take them.
    private let wakeUp = NIOLockedValueBox<@Sendable () -> Void>({})
    private let input: SendInput

    init(input: SendInput, desk: consuming SendDesk) {
        self.input = input
        self.desk = desk
    }

    func start(wake: @escaping @Sendable () -> Void) {
        self.input.whenReady(wake)
        self.wakeUp.withLockedValue { $0 = wake }
        self.lock.withLock { self.desk.wake = wake }
        // Something may have come before anyone could be woken.
        wake()
    }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.lock.lock()
        defer { self.unlock() }
        return self.desk.fill(&batch)
    }

    func settle(_ settled: borrowing SettledNotifications) {
        self.lock.lock()
        defer { self.unlock() }
        self.desk.settle(settled)
    }

    /// Lets go of the desk, and sees to it that what lies there does not lie for long.
    private func unlock() {
        let isFlushDue = self.desk.awaitFlush()
        self.lock.unlock()
        guard isFlushDue else { return }
        let delay = TimeAmount(SendResults.flushDelay)
        MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: delay) {
            self.lock.withLock { self.desk.flush() }
        }
    }

    var isEnded: Bool { self.input.isAbandoned || self.lock.withLock { self.desk.isEnded } }

    /// Whether ``end()`` was called.
    var isStopped: Bool { self.input.isAbandoned }

    /// Gives lines one by one, for transports that do not write frames.
    func items(countMax: Int) -> (items: [SendItem], supply: ProviderSupply) {
        self.lock.lock()
        defer { self.unlock() }
        return self.desk.items(countMax: countMax)
    }

    /// Takes what became of a line that ``items(countMax:)`` gave.
    func settle(_ item: SendItem, _ verdict: SendVerdict) {
        self.lock.lock()
        defer { self.unlock() }
        self.desk.settle(item, verdict)
    }

    /// Reads no more; what was read is sent and proved.
    func end() {
        self.input.abandon()
        self.wakeUp.withLockedValue { $0 }()
    }

    /// Reads all without sending any.
    func readThrough() {
        while self.lock.withLock({ self.desk.skipRecords() }) { usleep(1000) }
    }

    /// How far it is.
    var progress: SendProgress {
        self.lock.withLock { self.desk.progress }
    }

    /// Ends the files.
    ///
    /// - Returns: what went wrong with the input or the files on the way, or now.
    func finish() -> CommandFailure? {
        self.lock.withLock { self.desk.finish() }
    }

    /// How many rejected tokens there are for a purge list, and of how many it is not known when their apps were gone.
    var rejectionCounts: (count: UInt64, doubtfulCount: UInt64) { self.lock.withLock { self.desk.rejectionCounts } }

    /// Gives what was rejected to a purge list, what is doubtful only with a time.
    func recordRejections(in list: PurgeList, _ scope: PurgeScope, failedAt: Int64?) throws -> PurgeChange {
        try self.lock.withLock { try self.desk.recordRejections(in: list, scope, failedAt: failedAt) }
    }
}
