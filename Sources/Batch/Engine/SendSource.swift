// SPDX-License-Identifier: Apache-2.0

package import APNSProvider
package import APNSSession
package import APNSWire
import Dispatch
import NIOConcurrencyHelpers

/// Supplies the lines of a batch to the connections, and receives their outcomes.
///
/// Event loops call it, one at a time, and it never blocks them: reading and writing run on a thread each.
package final class SendSource: NotificationSource, @unchecked Sendable {
    // All mutable state is in `batchState`, which is used only under the lock.
    private let lock = NIOLock()
    private var batchState: BatchSendState
    /// Whether a write is running, and whether one is scheduled; under the lock.
    private var (isWriting, isWriteAwaited) = (false, false)
    private let reader: SendReader
    private let files: SendFiles
    private let wakeUp = NIOLockedValueBox<@Sendable () -> Void>({})
    private let input: SendInput
    private let queue = DispatchQueue(label: "apns-legacy.send.output")

    /// Results are written within about twice this time, unless the disk is slower.
    private static let writeDelay = DispatchTimeInterval.milliseconds(20)

    package init(input: SendInput, batchState: consuming BatchSendState) {
        self.input = input
        self.reader = batchState.reader
        self.files = batchState.files
        self.batchState = batchState
    }

    /// Reads the start of the input, so that no connection is opened for an unusable file.
    package func prepare() { self.reader.prepare() }

    package func start(wake: @escaping @Sendable () -> Void) {
        self.reader.whenReady(wake)
        self.wakeUp.withLockedValue { $0 = wake }
        // Lines may have been read before there was a connection to wake up.
        wake()
    }

    package func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.lock.lock()
        defer { self.unlock() }
        return self.batchState.fill(&batch)
    }

    package func settle(_ settled: borrowing SettledNotifications) {
        self.lock.lock()
        defer { self.unlock() }
        self.batchState.settle(settled)
    }

    /// Releases the lock, and schedules a write of the results.
    private func unlock() {
        let mustWake = self.batchState.takeWake()
        let (isDue, isUrgent) = self.batchState.portionState
        let isWrite = isUrgent && !self.isWriting
        let isDelayed = isDue && !self.isWriting && !isWrite && !self.isWriteAwaited
        if isWrite { self.isWriting = true }
        if isDelayed { self.isWriteAwaited = true }
        self.lock.unlock()
        if mustWake { self.wakeUp.withLockedValue { $0 }() }
        if isWrite { self.queue.async { self.write() } }
        if isDelayed { self.queue.asyncAfter(deadline: .now() + SendSource.writeDelay) { self.writeWhatIsDue() } }
    }

    /// Writes after the delay, unless another write has already done so.
    private func writeWhatIsDue() {
        let isDue = self.lock.withLock {
            self.isWriteAwaited = false
            guard !self.isWriting else { return false }
            self.isWriting = self.batchState.portionState.isDue
            return self.isWriting
        }
        if isDue { self.write() }
    }

    /// Writes all results; runs on the queue.
    private func write() {
        let portion = self.lock.withLock { self.batchState.takePortion() }
        let result = Result { try self.files.write(portion) }
        self.lock.lock()
        self.isWriting = false
        self.batchState.complete(portion, result)
        self.unlock()
    }

    package var isEnded: Bool { self.input.isAbandoned || self.lock.withLock { self.batchState.isEnded } }

    package var isStopped: Bool { self.input.isAbandoned }

    /// Stops reading; lines that were given to a connection are still sent and verified.
    package func end() {
        self.input.abandon()
        self.wakeUp.withLockedValue { $0 }()
    }

    /// Reads all lines without sending them; blocks until that is done.
    package func readThrough() {
        let woken = DispatchSemaphore(value: 0)
        self.start { woken.signal() }
        while self.skipLines() { woken.wait() }
    }

    private func skipLines() -> Bool {
        self.lock.lock()
        defer { self.unlock() }
        return self.batchState.skipLines()
    }

    /// Reports lines that were read as unsent, if no connection could be opened for them.
    package func settleUngiven(_ reason: DeliveryOutcome.Reason) {
        self.lock.lock()
        defer { self.unlock() }
        self.batchState.settleUngiven(reason)
    }

    /// The progress of the batch.
    package var progress: SendProgress {
        self.lock.withLock { self.batchState.progress }
    }

    /// Where another run can continue, once every line has an outcome; `nil` if nothing is left to send.
    package var resumePoint: ResumePoint? { self.lock.withLock { self.batchState.resumePoint } }

    /// Whether the results or the journal were removed or replaced, so that the same command must not run again.
    package var isFileLost: Bool { self.lock.withLock { self.batchState.isFileLost } }

    /// Finishes the files; blocks until they are written.
    ///
    /// Returns the first failure of the input or the files; `nil` if there was none.
    package func finish() -> (any Error)? {
        self.reader.stop()
        // A running write finishes first; a scheduled one finds nothing to do.
        return self.queue.sync { self.lock.withLock { self.batchState.finish() } }
    }
}
