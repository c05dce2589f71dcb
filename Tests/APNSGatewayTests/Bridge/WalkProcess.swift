// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded

@testable import APNSGateway

/// A run of a walk's gateway: the real backend with all its bridges, with a service and a disk controlled by the walk.
final class WalkProcess {
    let backend: HTTP2Backend
    let upstream: WalkUpstream
    let store: WalkResendStore
    let mutated: WalkBackend
    private let mutant: BridgeMutant?

    init(
        _ disk: WalkDisk,
        recorder: any FeedbackRecorder,
        loop: EmbeddedEventLoop,
        mutant: BridgeMutant?,
        jitter: @escaping @Sendable () -> Double,
        configure: (any Upstream) -> BridgeConfiguration
    ) {
        self.upstream = WalkUpstream()
        self.store = WalkResendStore(disk, tellsAtOnce: mutant == .tellsBeforeDisk)
        let clock = BridgeClock(
            now: { [loop] in .nanoseconds(Int64(loop.now.uptimeNanoseconds)) },
            date: { UInt32(clamping: 1_800_000_000 + Int64(loop.now.uptimeNanoseconds / 1_000_000_000)) },
            milliseconds: { 1_800_000_000_000 + Int64(loop.now.uptimeNanoseconds / 1_000_000) },
            jitter: jitter
        )
        self.backend = HTTP2Backend(
            [configure(self.upstream)],
            recorder: recorder,
            resends: self.store,
            clock: clock,
            rules: mutant?.rules ?? .exact,
            eventLoopGroup: loop,
            logger: Logger(label: "walk") { _ in SwiftLogNoOpLogHandler() }
        )
        self.mutant = mutant
        self.mutated = WalkBackend(self.backend, mutant)
    }

    /// The service answers a request.
    func answer(_ request: WalkUpstream.Request, _ answer: DeliveryOutcome) {
        let isConnectionEnding = self.mutated.isConnectionEnding
        request.onResponse(self.mutant?.answer(answer, isConnectionEnding: isConnectionEnding) ?? answer, nil)
    }

    /// The process died: none of its pending actions happens.
    func kill() {
        self.upstream.close()
        self.store.close()
    }

    /// The number of messages that were delivered although they may be resends.
    var possibleResendCount: UInt64 { self.backend.possibleResendCounts.values.reduce(0, +) }

    /// The number of recognized resends.
    var resendCount: Int { self.store.removedCount }

    var isIdle: Bool { self.backend.inFlightCounts.values.reduce(0, +) == 0 }
}

/// Requests on their way to the service.
final class WalkUpstream: Upstream {
    struct Request: Sendable {
        var request: PushRequest
        var onResponse: @Sendable (DeliveryOutcome, Duration?) -> Void
    }

    private struct State {
        var requests: [Request] = []
        var hasRoom = true
        var isClosed = false
    }

    private let state = NIOLockedValueBox(State())

    var hasRoom: Bool { self.state.withLockedValue(\.hasRoom) }

    func setHasRoom(_ hasRoom: Bool) { self.state.withLockedValue { $0.hasRoom = hasRoom } }

    func send(_ request: PushRequest, onResponse: @escaping @Sendable (DeliveryOutcome, Duration?) -> Void) {
        self.state.withLockedValue { state in
            if !state.isClosed { state.requests.append(Request(request: request, onResponse: onResponse)) }
        }
    }

    var count: Int { self.state.withLockedValue(\.requests.count) }

    func take(_ index: Int) -> Request { self.state.withLockedValue { $0.requests.remove(at: index) } }

    func close() { self.state.withLockedValue { $0.isClosed = true } }
}

/// What survives the process.
final class WalkDisk: Sendable {
    private let resends = NIOLockedValueBox<[ExpectedResend]>([])

    var all: [ExpectedResend] { self.resends.withLockedValue { $0 } }

    func insert(_ new: [ExpectedResend]) { self.resends.withLockedValue { $0 += new } }

    func remove(_ resend: ExpectedResend) {
        self.resends.withLockedValue { resends in
            if let index = resends.firstIndex(of: resend) { resends.remove(at: index) }
        }
    }
}

/// Writes to the disk when the walk decides, in order.
final class WalkResendStore: ResendStore {
    private struct Change: Sendable {
        var carryOut: @Sendable (WalkDisk) -> Void
        var onDone: @Sendable () -> Void
    }

    private struct State {
        var changes: [Change] = []
        var removedCount = 0
        var isClosed = false
    }

    private let disk: WalkDisk
    private let state = NIOLockedValueBox(State())

    /// Whether it reports resends as kept before they are on the disk.
    private let tellsAtOnce: Bool

    init(_ disk: WalkDisk, tellsAtOnce: Bool = false) {
        self.disk = disk
        self.tellsAtOnce = tellsAtOnce
    }

    func resends(of provider: String, for duration: Duration) -> [ExpectedResend] { self.disk.all }

    func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        let tellsAtOnce = self.tellsAtOnce
        self.enqueue(Change(carryOut: { $0.insert(resends) }, onDone: { if !tellsAtOnce { onKept(true) } }))
        if tellsAtOnce { onKept(true) }
    }

    func remove(_ resend: ExpectedResend, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.removedCount += 1 }
        self.enqueue(Change(carryOut: { $0.remove(resend) }, onDone: onRemoved))
    }

    private func enqueue(_ change: Change) {
        self.state.withLockedValue { if !$0.isClosed { $0.changes.append(change) } }
    }

    var count: Int { self.state.withLockedValue(\.changes.count) }

    var removedCount: Int { self.state.withLockedValue(\.removedCount) }

    /// The oldest change reaches the disk; its writer is notified unless the process dies first.
    func write(tells: Bool = true) {
        guard let change = self.state.withLockedValue({ $0.changes.isEmpty ? nil : $0.changes.removeFirst() }) else {
            return
        }
        change.carryOut(self.disk)
        if tells { change.onDone() }
    }

    func close() {
        self.state.withLockedValue { state in
            state.isClosed = true
            state.changes = []
        }
    }
}
