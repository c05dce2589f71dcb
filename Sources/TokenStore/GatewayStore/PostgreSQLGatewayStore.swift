// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
package import APNSSession
package import APNSWire
import Dispatch
package import Logging
import Metrics
import NIOConcurrencyHelpers
import NIOCore
import PostgreSQL

/// The expected resends and dead tokens of several gateways behind a balancer, in a PostgreSQL database.
///
/// Dead tokens are first stored in the gateway's own file, and moved to the database as soon as it answers. One thread
/// uses the database, many changes per transaction; event loops never wait for it. While it does not answer,
/// ``problem`` is set, and what has a deadline is given up.
package final class PostgreSQLGatewayStore: SharedGatewayStore, Sendable {
    /// The time limit of everything that a provider waits for.
    package static let answerTimeout = Duration.seconds(5)
    /// The interval at which the dead tokens that other gateways recorded are read.
    static let pollInterval = Duration.seconds(1)
    /// The interval at which resends that are not expected any more are removed.
    private static let expiryInterval = Duration.seconds(60)
    /// The maximum number of dead tokens in memory; of further ones, a delivery removes none from the list.
    private static let tokenCountMax = 1_000_000
    /// The number of dead tokens that are moved in one transaction.
    private static let portionCount = 4096
    private static let backoff = Backoff(first: .milliseconds(250), max: .seconds(5))

    private struct State: Sendable {
        var queue = SharedStoreQueue()
        /// The dead tokens of all gateways, as far as this one knows.
        var lists: [TokenScope: FeedbackBuckets] = [:]
        var isWorking = false
        /// Whether something was added after the last look.
        var isDue = false
        var isPollDue = false
        var isGivingUp = false
        var problem: String?
    }

    private let local: SQLiteGatewayStore
    private let database: PostgreSQLGatewayDatabase
    private let state = NIOLockedValueBox(State())
    private let failures = Counter(label: "apns.legacy.store.failures")
    private let logger: Logger
    private let thread = DispatchQueue(label: "shared gateway store")
    private let timer = DispatchQueue(label: "shared gateway store deadlines")
    /// The thread's own.
    private let progress = NIOLockedValueBox((mark: "0", lastExpiry: nil as ContinuousClock.Instant?))

    /// Creates a store; the database does not have to answer yet.
    ///
    /// - Parameters:
    ///   - address: the address of the database, without a password.
    ///   - local: stores dead tokens until they are in the database.
    ///   - logger: receives the changes of its state.
    package init(_ address: String, local: SQLiteGatewayStore, logger: Logger) {
        self.local = local
        self.database = PostgreSQLGatewayDatabase(address, process: "\(UInt64.random(in: 0 ... .max))")
        self.logger = logger
        self.schedulePoll(after: .zero)
    }

    /// Why an address cannot be used; `nil` if it can.
    package static func problem(of address: String) -> String? {
        guard PostgreSQLConnection.isAddress(address) else { return "expected postgresql://... or postgres://..." }
        do throws(PostgreSQLError) { try PostgreSQLConnection.check(address) } catch { return error.message }
        return nil
    }

    /// Why the database currently does not answer; `nil` if it does.
    package var problem: String? { self.state.withLockedValue(\.problem) }

    /// Waits until everything was tried once more.
    package func flush() async {
        guard self.problem == nil else { return }
        self.wake()
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }

    private static var now: Duration {
        .nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds))
    }

    // MARK: Expected resends

    /// Returns none, since they are read when a provider connects.
    package func resends(of provider: String, for duration: Duration) -> [ExpectedResend] { [] }

    package func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        let change = SharedStoreQueue.Change.expect(resends, provider: provider, duration: duration)
        self.add(change) { answer in
            if case .done = answer { onKept(true) } else { onKept(false) }
        }
    }

    package func remove(_ resend: ExpectedResend, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        self.claim(resend, of: provider) { _ in onRemoved() }
    }

    package func claim(
        _ resend: ExpectedResend,
        of provider: String,
        onClaimed: @escaping @Sendable (ResendClaim) -> Void
    ) {
        self.add(.claim(resend, provider: provider)) { answer in
            switch answer {
            case .done: onClaimed(.claimed)
            case .absent: onClaimed(.absent)
            case .givenUp, .resends, .list: onClaimed(.unknown)
            }
        }
    }

    package func load(of provider: String, onLoaded: @escaping @Sendable ([ExpectedResend]?) -> Void) {
        self.add(.load(provider: provider)) { answer in
            if case .resends(let resends) = answer { onLoaded(resends) } else { onLoaded(nil) }
        }
    }

    // MARK: Dead tokens

    /// The number of dead tokens in each list: those that are known of all gateways, and those that wait in the file.
    package var counts: [TokenScope: Int] {
        self.state.withLockedValue { $0.lists.mapValues(\.count) }.merging(self.local.counts, uniquingKeysWith: +)
    }

    package func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) {
        self.local.record(tuple, in: list) {
            self.wake()
            onKept()
        }
    }

    package func forget(_ token: DeviceToken, in list: TokenScope) {
        self.local.forget(token, in: list)
        // Most lists are empty, and this is called for each notification.
        let isRemoved = self.state.withLockedValue { state -> Bool in
            guard let time = state.lists[list]?[token] else { return false }
            state.lists[list]?[token] = nil
            return state.queue.add(.remove([token: time], list), until: nil)
        }
        if isRemoved { self.wake() }
    }

    package func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage {
        self.state.withLockedValue { state in
            state.lists[list]?.page(from: index, countMin: countMin) ?? FeedbackPage(nextIndex: index)
        }
    }

    package func acknowledge(_ tokens: [FeedbackPage.Bucket], in list: TokenScope) {
        self.state.withLockedValue { state in
            for bucket in tokens {
                for (token, time) in bucket where state.lists[list]?[token] == time { state.lists[list]?[token] = nil }
                _ = state.queue.add(.remove(bucket, list), until: nil)
            }
        }
        self.wake()
    }

    package func open(_ list: TokenScope, onOpened: @escaping @Sendable (Bool) -> Void) {
        self.add(.list(list)) { answer in
            guard case .list(let tokens) = answer else { return onOpened(false) }
            self.state.withLockedValue { $0.lists[list] = tokens }
            onOpened(true)
        }
    }

    /// Takes a token over that is in the database, or is about to be.
    private static func learn(_ token: DeviceToken, _ time: UInt32, _ list: TokenScope, _ state: inout State) {
        guard state.lists.values.reduce(0, { $0 + $1.count }) < self.tokenCountMax else { return }
        let known = state.lists[list]?[token] ?? 0
        state.lists[list, default: FeedbackBuckets()][token] = max(known, time)
    }

    /// Leaves out tokens that stay in the file for now; if they are in the database after all, they are read there.
    private func unlearn(_ tokens: [FeedbackPage.Bucket], _ list: TokenScope) {
        self.state.withLockedValue { state in
            for (token, time) in tokens.joined() where state.lists[list]?[token] == time {
                state.lists[list]?[token] = nil
            }
        }
    }

    /// The next dead tokens to move.
    private func localTokens() -> (tokens: [FeedbackPage.Bucket], list: TokenScope)? {
        guard let list = self.local.counts.first(where: { $0.value > 0 })?.key else { return nil }
        let page = self.local.page(of: list, from: 0, countMin: Self.portionCount)
        guard !page.buckets.isEmpty else { return nil }
        // Before they are in the database, so that a delivery meanwhile removes them from there.
        self.state.withLockedValue { state in
            for (token, time) in page.buckets.joined() { Self.learn(token, time, list, &state) }
        }
        return (page.buckets, list)
    }

    // MARK: The thread

    private func add(_ change: SharedStoreQueue.Change, onDone: @escaping SharedStoreQueue.Completion) {
        let deadline = Self.now + Self.answerTimeout
        let isAdded = self.state.withLockedValue { $0.queue.add(change, until: deadline, onDone: onDone) }
        guard isAdded else { return onDone(.givenUp) }
        self.wake()
        self.scheduleGivingUp()
    }

    private func wake() {
        let starts = self.state.withLockedValue { state -> Bool in
            state.isDue = true
            defer { state.isWorking = true }
            return !state.isWorking
        }
        if starts { self.thread.async { self.work() } }
    }

    /// Carries out what waits, including what is added meanwhile.
    private func work() {
        while true {
            let (batch, isPolling) = self.state.withLockedValue { state in
                defer { (state.isDue, state.isPollDue) = (false, false) }
                return (state.queue.take(), state.isPollDue)
            }
            let tokens = self.localTokens()
            do {
                if !batch.isEmpty || tokens != nil {
                    let answers = try self.database.apply(batch, tokens)
                    if let tokens { self.local.acknowledge(tokens.tokens, in: tokens.list) }
                    let waiting = self.state.withLockedValue { $0.queue.committed() }
                    // In the order in which they were added.
                    for (number, onDone) in waiting.sorted(by: { $0.key < $1.key }) {
                        onDone(answers[number] ?? .done)
                    }
                }
                if isPolling { try self.poll() }
                self.succeeded()
            } catch {
                if let tokens { self.unlearn(tokens.tokens, tokens.list) }
                return self.failed(error)
            }
            let isOver = self.state.withLockedValue { state -> Bool in
                guard batch.isEmpty, tokens == nil, !state.isDue else { return false }
                state.isWorking = false
                return true
            }
            if isOver { return }
        }
    }

    private func succeeded() {
        let wasAway = self.state.withLockedValue { state in
            defer { state.problem = nil }
            _ = state.queue.committed()
            return state.problem != nil
        }
        if wasAway { self.logger.notice("shared database answers again") }
    }

    private func failed(_ error: any Error) {
        self.failures.increment()
        let (isFirst, failureCount) = self.state.withLockedValue { state in
            defer { state.problem = "\(error)" }
            state.queue.failed()
            state.isPollDue = true
            return (state.problem == nil, state.queue.failureCount)
        }
        if isFirst {
            self.logger.error(
                "shared database does not answer, retrying; dead tokens wait in the feedback database",
                metadata: [LogKey.failure: "\(error)"]
            )
        }
        let pause = Self.backoff.delay(failures: failureCount, jitter: 1)
        self.thread.asyncAfter(deadline: .now() + pause / .seconds(1)) { self.work() }
    }

    /// Reads what other gateways recorded.
    private func poll() throws {
        while true {
            let mark = self.progress.withLockedValue(\.mark)
            var found: [(DeviceToken, UInt32, TokenScope)] = []
            let next = try self.database.changes(since: mark) { found.append(($0, $1, $2)) }
            self.state.withLockedValue { state in
                for (token, time, list) in found { Self.learn(token, time, list, &state) }
            }
            self.progress.withLockedValue { $0.mark = next.mark }
            if next.isLast { break }
        }
        let now = ContinuousClock.now
        if let last = self.progress.withLockedValue(\.lastExpiry), now - last < Self.expiryInterval { return }
        try self.database.expire()
        self.progress.withLockedValue { $0.lastExpiry = now }
    }

    private func schedulePoll(after delay: Duration) {
        self.timer.asyncAfter(deadline: .now() + delay / .seconds(1)) { [weak self] in
            guard let self else { return }
            self.state.withLockedValue { $0.isPollDue = true }
            self.wake()
            self.schedulePoll(after: Self.pollInterval)
        }
    }

    // MARK: Deadlines

    /// The longest time by which a deadline is exceeded.
    private static let deadlineInterval = Duration.milliseconds(250)

    private func scheduleGivingUp() {
        let isFirst = self.state.withLockedValue { state in
            defer { state.isGivingUp = true }
            return !state.isGivingUp
        }
        if isFirst { self.giveUpLater() }
    }

    private func giveUpLater() {
        self.timer.asyncAfter(deadline: .now() + Self.deadlineInterval / .seconds(1)) { [weak self] in
            guard let self else { return }
            let (completions, isOver) = self.state.withLockedValue { state in
                let completions = state.queue.giveUp(now: Self.now)
                state.isGivingUp = state.queue.hasDeadline
                return (completions, !state.isGivingUp)
            }
            for completion in completions { completion(.givenUp) }
            if !isOver { self.giveUpLater() }
        }
    }
}
#endif
