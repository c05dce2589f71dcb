// SPDX-License-Identifier: Apache-2.0

import Batch
import Dispatch
import Glibc
import NIOConcurrencyHelpers

/// How a command reacts to requests to stop: at the first one it finishes what it has begun, at the second one it ends
/// immediately.
struct StopReaction: Sendable {
    /// What is reported at the first request; `nil` for nothing.
    var first: String?
    /// Asks the work to finish.
    var onFirst: @Sendable () -> Void = {}
    /// What is reported if the process ends before the work does.
    var last: String
    /// How long the work may take to end after the second request.
    var endDuration = DispatchTimeInterval.milliseconds(0)
}

extension CommandEnvironment {
    /// How long work may take to end if it may be waiting for a reader of its messages.
    private static let unreadEndDuration = DispatchTimeInterval.milliseconds(300)

    /// The requests to stop from now on, by their numbers.
    ///
    /// Returns the numbers, from 1; a stream without an end.
    func stopRequests(_ kinds: [CInt] = []) -> AsyncStream<Int> {
        let (requests, continuation) = AsyncStream.makeStream(of: Int.self)
        self.receiveSignals(kinds) { [stops] signal in
            if let number = stops.receive(signal) { continuation.yield(number) }
        }
        return requests
    }

    /// Runs work that signals can stop.
    ///
    /// Returns what the work returns.
    ///
    /// - Throws: what the work throws.
    func stoppable<Value: Sendable>(
        _ reaction: StopReaction,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let requests = self.stopRequests()
        let onFirst = NIOLockedValueBox<(@Sendable () -> Void)?>(reaction.onFirst)
        // What the work uses, such as open files, must not outlive it.
        defer { onFirst.withLockedValue { $0 = nil } }
        let (cancellations, cancelling) = AsyncStream.makeStream(of: Void.self)
        // Until the process ends, since reporting may also take long.
        Task { [first = reaction.first, last = reaction.last, endDuration = reaction.endDuration] in
            for await number in requests {
                guard number == 1 else {
                    self.endSoon(.error(last), endDuration)
                    return _ = cancelling.yield()
                }
                if let first { self.console.briefly { $0.emit(first) } }
                onFirst.withLockedValue { $0 }?()
            }
        }
        return try await withThrowingTaskGroup(of: (value: Value?, isCancelled: Bool).self) { group in
            group.addTask { (try await work(), false) }
            group.addTask {
                for await _ in cancellations { return (nil, true) }
                return (nil, false)
            }
            defer { group.cancelAll() }
            while let (value, isCancelled) = try await group.next() {
                if let value { return value }
                if isCancelled { group.cancelAll() }
            }
            throw CancellationError()
        }
    }

    /// Runs work that blocks its thread, on a thread of its own.
    func blocking<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue(label: "apns-legacy.work").async { continuation.resume(with: Result { try work() }) }
        }
    }

    /// Exits if the process is still running after a time.
    private func endSoon(_ diagnostic: Diagnostic, _ duration: DispatchTimeInterval) {
        let isUnread = self.console.isUnread
        // A separate queue has its own thread, even if all others are blocked.
        DispatchQueue(label: "apns-legacy.end").asyncAfter(
            deadline: .now() + (isUnread ? Self.unreadEndDuration : duration)
        ) {
            if !isUnread {
                self.console.briefly { console in
                    console.endBar()
                    console.emit(diagnostic)
                }
            }
            self.exit(ExitStatus.tryAgain.rawValue)
        }
    }

    /// Sets what signals do once the command has its exit code, and only has to print what it found.
    func endSignals(_ status: ExitStatus) {
        self.receiveSignals([]) { [stops, exit] signal in
            // The first signal may be the one that ended the command.
            guard let number = stops.receive(signal), number > 1 else { return }
            // What was not printed is lost, so this is no success.
            exit(status.worse(.tryAgain).rawValue)
        }
    }
}
