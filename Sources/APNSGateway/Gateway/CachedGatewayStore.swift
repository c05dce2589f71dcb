// SPDX-License-Identifier: Apache-2.0

import APNSServer
package import APNSSession
package import APNSWire
package import Logging
import NIOConcurrencyHelpers

/// Keeps the rows of a ``GatewayStore`` in memory, so that event loops never wait for it, and writes their changes in
/// order.
///
/// A change counts as stored when ``GatewayStore/save(_:)`` has returned.
package final class CachedGatewayStore: FeedbackListStore, ResendStore {
    /// The maximum number of dead tokens; further ones are dropped, which is logged.
    ///
    /// A million use about 100 MB of memory.
    static let tokenCountMax = 1_000_000
    /// The maximum number of expected resends that wait to be stored; further ones are refused.
    static let pendingResendCountMax = 100_000
    /// How long the gateway may have been down for its resends to be still expected.
    ///
    /// Providers retry for minutes; what they send later is more likely a new notification with the same content.
    static let downtimeMax = Duration.seconds(600)
    /// How often expired rows are removed.
    private static let expiryInterval = Duration.seconds(5)

    /// A change of a row.
    private struct Change: Sendable {
        var row: GatewayRow
        /// How long a row of an expected resend is valid from when it is written; `nil` removes the row.
        var duration: Duration?
        /// Called when the change is durable.
        var onDone: (@Sendable () -> Void)?
    }

    private struct State: Sendable {
        var lists: [TokenScope: FeedbackBuckets] = [:]
        var tokenCount = 0
        /// The rows of each provider.
        var resends: [String: [ExpectedResend: [GatewayRow.Resend]]] = [:]
        /// The changes to write, in order.
        var pending: [Change] = []
        var pendingResendCount = 0
        var idleWaiters: [@Sendable () -> Void] = []
        var isWriting = false
    }

    private let store: any GatewayStore
    private let logger: Logger
    private let drops: RefusalLog
    private let backoff: Backoff
    private let state = NIOLockedValueBox(State())
    private let wakeups: AsyncStream<Void>
    private let wakeup: AsyncStream<Void>.Continuation

    package init(
        _ store: any GatewayStore,
        logger: Logger,
        backoff: Backoff = Backoff(first: .milliseconds(250), max: .seconds(15))
    ) {
        self.store = store
        self.logger = logger
        self.drops = RefusalLog(logger)
        self.backoff = backoff
        (self.wakeups, self.wakeup) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Reads all rows; resends are expected for a duration from now, since no provider could resend before.
    package func load(remembered duration: Duration) async throws {
        let rows = try await self.store.load().map { try GatewayRow(key: $0.key, value: $0.value) }
        let now = Timestamp.now
        let earliest = now.advanced(by: .zero - Self.downtimeMax)
        self.state.withLockedValue { state in
            for row in rows {
                switch row {
                case .dead(let tuple, let list):
                    state.lists[list, default: FeedbackBuckets()][tuple.token] = tuple.failedAtSeconds
                    state.tokenCount += 1
                case .resend(let resend) where (resend.until ?? now) < earliest:
                    state.pending.append(Change(row: row))
                case .resend(var resend):
                    state.pendingResendCount += 1
                    state.pending.append(Change(row: row, duration: duration))
                    resend.until = nil
                    state.resends[resend.provider, default: [:]][resend.expected, default: []].append(resend)
                }
            }
        }
        self.wake()
    }

    // MARK: Dead tokens

    package func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage {
        self.state.withLockedValue {
            $0.lists[list]?.page(from: index, countMin: countMin) ?? FeedbackPage(nextIndex: index)
        }
    }

    package func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) {
        let isFull = self.state.withLockedValue { state -> Bool in
            let before = state.lists[list]?[tuple.token]
            guard before != nil || state.tokenCount < Self.tokenCountMax else { return true }
            if before == nil { state.tokenCount += 1 }
            var newest = tuple
            newest.failedAtSeconds = max(before ?? 0, tuple.failedAtSeconds)
            state.lists[list, default: FeedbackBuckets()][tuple.token] = newest.failedAtSeconds
            state.pending.append(Change(row: .dead(newest, list), duration: .zero, onDone: onKept))
            return false
        }
        guard isFull else { return self.wake() }
        self.drops.log("feedback store is full", level: .error, [LogKey.topic: "\(list.topic)", LogKey.tokens: "1"])
        onKept()
    }

    package func forget(_ token: DeviceToken, in list: TokenScope) {
        self.remove(CollectionOfOne((key: token, value: nil)), in: list)
    }

    package func acknowledge(_ tokens: [FeedbackPage.Bucket], in list: TokenScope) {
        for bucket in tokens { self.remove(bucket.lazy.map { (key: $0.key, value: $0.value) }, in: list) }
    }

    /// Removes tokens from a list; those with a time only if it is unchanged.
    private func remove(_ tokens: some Sequence<(key: DeviceToken, value: UInt32?)>, in list: TokenScope) {
        let isChanged = self.state.withLockedValue { state -> Bool in
            guard state.tokenCount > 0, state.lists[list] != nil else { return false }
            let countBefore = state.tokenCount
            for (token, time) in tokens {
                guard let present = state.lists[list]?[token], time == nil || time == present else { continue }
                state.lists[list]?[token] = nil
                state.tokenCount -= 1
                state.pending.append(Change(row: .dead(FeedbackTuple(token: token, failedAt: present), list)))
            }
            return state.tokenCount < countBefore
        }
        if isChanged { self.wake() }
    }

    // MARK: Expected resends

    package func resends(of provider: String, for duration: Duration) -> [ExpectedResend] {
        let rows: [ExpectedResend: [GatewayRow.Resend]] = self.state.withLockedValue { $0.resends[provider] ?? [:] }
        func place(_ resend: ExpectedResend) -> (Int64, Int64) {
            (resend.place?.response ?? 0, resend.place?.index ?? 0)
        }
        return rows.values.joined().map(\.expected).sorted { place($0) < place($1) }
    }

    package func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        guard !resends.isEmpty else { return onKept(true) }
        let rows = resends.map { GatewayRow.Resend($0, provider: provider) }
        var changes = rows.map { Change(row: .resend($0), duration: duration) }
        changes[changes.count - 1].onDone = { onKept(true) }
        let hasRoom = self.state.withLockedValue { [changes] state -> Bool in
            guard state.pendingResendCount + rows.count <= Self.pendingResendCountMax else { return false }
            state.pendingResendCount += rows.count
            for row in rows { state.resends[provider, default: [:]][row.expected, default: []].append(row) }
            state.pending += changes
            return true
        }
        guard hasRoom else { return onKept(false) }
        self.wake()
    }

    package func remove(_ resend: ExpectedResend, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        let isKnown = self.state.withLockedValue { state -> Bool in
            guard let row = state.resends[provider]?[resend]?.popLast() else { return false }
            if state.resends[provider]?[resend]?.isEmpty == true { state.resends[provider]?[resend] = nil }
            state.pending.append(Change(row: .resend(row), onDone: onRemoved))
            return true
        }
        // Its time has passed, and its row is removed with the changes that wait.
        guard isKnown else { return self.whenIdle(onRemoved) }
        self.wake()
    }

    // MARK: Writing

    private func wake() { self.wakeup.yield() }

    /// Writes changes until the task is cancelled.
    package func run() async {
        await withTaskGroup { group in
            group.addTask {
                while (try? await Task.sleep(for: Self.expiryInterval)) != nil { self.expire() }
            }
            for await _ in self.wakeups { while await self.writeBatch() {} }
            group.cancelAll()
        }
    }

    /// Calls `body` once everything is durable, possibly immediately, from any thread.
    package func whenIdle(_ body: @escaping @Sendable () -> Void) {
        let isIdle = self.state.withLockedValue { state -> Bool in
            guard state.isWriting || !state.pending.isEmpty else { return true }
            state.idleWaiters.append(body)
            return false
        }
        if isIdle { body() }
    }

    /// Writes the next changes, repeatedly until that succeeds or the task is cancelled.
    ///
    /// Returns whether there may be more.
    private func writeBatch() async -> Bool {
        let batch = self.state.withLockedValue { state -> [Change] in
            let batch = Array(state.pending.prefix(PushGateway.savedRowCountMax))
            state.pending.removeFirst(batch.count)
            state.isWriting = !batch.isEmpty
            return batch
        }
        guard !batch.isEmpty else {
            let waiters = self.state.withLockedValue { state in
                defer { state.idleWaiters = [] }
                return state.idleWaiters
            }
            for waiter in waiters { waiter() }
            return false
        }
        var failureCount = 0
        while !Task.isCancelled {
            let rows = batch.map(Self.written)
            let values = Dictionary(rows.map { ($0.key, $0.value) }) { _, last in last }
            do {
                try await self.store.save(values)
                if failureCount > 0 { self.logger.notice("gateway store writable again") }
                self.written(batch, rows.map(\.until))
                return true
            } catch {
                failureCount += 1
                let pause = self.backoff.delay(failures: failureCount, jitter: 1)
                self.logger.error(
                    "gateway store not written, retrying",
                    metadata: [LogKey.failure: "\(error)", LogKey.storePause: "\(pause)"]
                )
                try? await Task.sleep(for: pause)
            }
        }
        return false
    }

    /// Returns what to write for a change now.
    private static func written(_ change: Change) -> (key: String, value: String?, until: Timestamp?) {
        guard let duration = change.duration else { return (change.row.key, nil, nil) }
        let until = Timestamp.now.advanced(by: duration)
        return (change.row.key, change.row.value(until: until), until)
    }

    /// Records that changes are durable.
    private func written(_ batch: [Change], _ ends: [Timestamp?]) {
        self.state.withLockedValue { state in
            state.isWriting = false
            for (change, until) in zip(batch, ends) {
                guard case .resend(let row) = change.row, let until else { continue }
                state.pendingResendCount -= 1
                let rows = state.resends[row.provider]?[row.expected]
                guard let index = rows?.firstIndex(where: { $0.key == row.key }) else { continue }
                state.resends[row.provider]?[row.expected]?[index].until = until
            }
        }
        for change in batch { change.onDone?() }
    }

    /// Removes expired rows even if nothing else is written, so that a later start does not expect them.
    private func expire() {
        let now = Timestamp.now
        let changes = self.state.withLockedValue { state -> [Change] in
            var changes: [Change] = []
            for (provider, rows) in state.resends {
                for (expected, same) in rows {
                    let valid = same.filter { $0.until.map { $0 >= now } ?? true }
                    guard valid.count < same.count else { continue }
                    state.resends[provider]?[expected] = valid.isEmpty ? nil : valid
                    changes += same.filter { row in !valid.contains { $0.key == row.key } }
                        .map { Change(row: .resend($0)) }
                }
                if state.resends[provider]?.isEmpty == true { state.resends[provider] = nil }
            }
            state.pending += changes
            return changes
        }
        if !changes.isEmpty { self.wake() }
    }
}
