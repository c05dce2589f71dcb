// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSHTTP2
import APNSSession
import Glibc
import Logging
import NIOCore
import NIOPosix

/// Sends the lines of a batch over HTTP/2.
///
/// Only the way out differs from the binary protocol: input, results, journal and summary are those of ``SendSource``.
struct PushTransport: Sendable {
    let configuration: PushConfiguration
    /// How a line becomes a request: as in the gateway.
    let rules: RequestRules
    /// After how many rejections because of the token in a row the batch ends; 0 for never.
    let invalidTokenRunCountMax: Int
    /// How often a line is sent that the service puts off.
    let tryCountMax: Int
    /// How long what was read may take when the source is stopped; then the rest is given up.
    let drainDurationMax: Duration
    let logger: Logger

    /// Requests without an outcome for each connection: more than it has streams, so that it never runs dry.
    static let requestCountMaxPerConnection = 2000

    /// So many lines are read at a time.
    private static let portionCountMax = 64

    /// What one run works with.
    private struct Parts: Sendable {
        let source: SendSource
        let client: PushClient
        let judge: ResponseClassifier
        let retryQueue = RetryQueue()
        let waker: AsyncStream<Void>.Continuation
    }

    /// Sends until the source ends and everything is settled, or going on is of no use.
    ///
    /// - Parameter source: gives the lines and takes their outcomes.
    /// - Throws: `PushError`, and ``CommandFailure`` where every further line would have the same answer.
    func run(_ source: SendSource) async throws {
        let backoff = Backoff(first: self.configuration.backoff.first, max: ResponseClassifier.delayMax)
        let judge = ResponseClassifier(
            invalidTokenRunCountMax: self.invalidTokenRunCountMax,
            tryCountMax: self.tryCountMax,
            backoff: backoff
        )
        let (wakes, waker) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let client = try self.client(judge, waker)
        let parts = Parts(source: source, client: client, judge: judge, waker: waker)
        source.start { waker.yield() }
        async let running: Void = {
            defer {
                judge.end()
                waker.yield()
            }
            try await client.run()
        }()
        let drainTimer = await self.pump(parts, wakes)
        defer { drainTimer?.cancel() }
        if judge.isOver { client.abandon() } else { client.finish() }
        let ending: Result<Void, any Error>
        do { ending = .success(try await running) } catch { ending = .failure(error) }
        for sendAttempt in parts.retryQueue.takeAll() { source.settle(sendAttempt.item, sendAttempt.unprocessed()) }
        if let failure = judge.failure { throw failure }
        try ending.get()
    }

    private func client(_ judge: ResponseClassifier, _ waker: AsyncStream<Void>.Continuation) throws -> PushClient {
        var configuration = self.configuration
        let tell = configuration.onConnectFailure
        configuration.onConnectFailure = { text in
            tell?(text)
            judge.loseConnection()
            waker.yield()
        }
        return try PushClient(configuration, logger: self.logger)
    }

    /// Hands lines to the client as long as there are any, and it takes them.
    ///
    /// It waits in one place only, where whatever happens wakes it.
    ///
    /// - Returns: what gives the rest up in time, where the source was stopped.
    private func pump(_ parts: Parts, _ wakes: AsyncStream<Void>) async -> Scheduled<Void>? {
        var drainTimer: Scheduled<Void>?
        var iterator = wakes.makeAsyncIterator()
        var sendAttempts: ArraySlice<SendAttempt> = []
        var hasEnded = false
        while !Task.isCancelled, !parts.judge.isOver {
            sendAttempts += parts.retryQueue.take(at: .now)
            var supply = !hasEnded && parts.retryQueue.hasRoom ? ProviderSupply.available : .waiting
            if sendAttempts.isEmpty, supply == .available {
                let items: [SendItem]
                (items, supply) = parts.source.items(countMax: Self.portionCountMax)
                sendAttempts += items.map { self.sendAttempt($0) }
                hasEnded = supply == .ended
            }
            while let sendAttempt = sendAttempts.first, self.isTaken(sendAttempt, parts) { sendAttempts.removeFirst() }
            if sendAttempts.isEmpty {
                if supply == .available { continue }
                if hasEnded, parts.retryQueue.isIdle { return drainTimer }
            }
            if parts.source.isStopped, drainTimer == nil { drainTimer = self.limitDrain(parts) }
            // Nobody is there to send the rest to.
            if parts.source.isStopped, parts.judge.isConnectionLost { parts.judge.end() } else { await iterator.next() }
        }
        for sendAttempt in sendAttempts { parts.source.settle(sendAttempt.item, sendAttempt.unprocessed()) }
        return drainTimer
    }

    /// Gives up in time what the service may never take: what was written is indeterminate then, the rest unsent.
    private func limitDrain(_ parts: Parts) -> Scheduled<Void> {
        let (judge, client, waker) = (parts.judge, parts.client, parts.waker)
        return MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(self.drainDurationMax)) {
            judge.end()
            client.stop()
            waker.yield()
        }
    }

    /// Hands a line to the client, or sees to it that the pump is woken when there is room.
    private func isTaken(_ sendAttempt: SendAttempt, _ parts: Parts) -> Bool {
        parts.retryQueue.goOut()
        switch parts.client.submit(sendAttempt.request, onReport: { self.take($0, sendAttempt, parts) }) {
        case .taken: return true
        case .full:
            let waker = parts.waker
            parts.client.whenRoom { waker.yield() }
        case .ended: parts.judge.end()
        }
        parts.retryQueue.settled()
        return false
    }

    /// Takes what became of an attempt.
    private func take(_ report: PushReport, _ sendAttempt: SendAttempt, _ parts: Parts) {
        var sendAttempt = sendAttempt
        switch parts.judge.judge(report, of: &sendAttempt) {
        case .settle(let verdict):
            parts.source.settle(sendAttempt.item, verdict)
            parts.retryQueue.settled()
        case .sendAgain(let pause):
            parts.retryQueue.put(sendAttempt, until: .now + pause)
            let waker = parts.waker
            MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(pause)) { waker.yield() }
        }
        if parts.retryQueue.isIdle || parts.judge.isOver { parts.waker.yield() }
    }

    private func sendAttempt(_ item: SendItem) -> SendAttempt {
        SendAttempt(
            item: item,
            request: self.rules.request(
                token: item.token,
                payload: item.payload,
                expiry: item.expiry,
                priority: item.priority,
                now: UInt32(clamping: time(nil))
            )
        )
    }
}
