// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Glibc
import NIOConcurrencyHelpers
import Synchronization

/// The signals of this process.
///
/// Those that ask it to stop are caught from its first statement on, and wait for a receiver: the command line is not
/// parsed yet, but the command will report what a signal stopped.
///
/// `UnixSignals` of swift-service-lifecycle begins after the first `await`, delivers signals on threads that a blocked
/// write may keep busy, catches signals that `nohup` ignores, and does not restore their default effect.
enum ProcessSignals {
    private struct State: Sendable {
        /// The signals that arrived before the first receiver was set.
        var waiting: [CInt] = []
        var receiver: (@Sendable (CInt) -> Void)?
    }

    private static let state = NIOLockedValueBox(State())
    /// The pipe from the handler, which may do next to nothing, to the receiver.
    private static let input = Atomic<CInt>(-1)
    private static let output = Atomic<CInt>(-1)
    private static let stopping = [SIGINT, SIGTERM]

    /// Catches the signals that ask to stop, unless they are ignored.
    ///
    /// Call it in the first thread of the process. System calls of this thread, and of threads that it starts, are not
    /// interrupted.
    static func begin() {
        var ends: [CInt] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A handler must not wait.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        Self.input.store(ends[0], ordering: .sequentiallyConsistent)
        Self.output.store(ends[1], ordering: .sequentiallyConsistent)
        Self.change(SIG_BLOCK, Self.stopping)
        for signal in Self.stopping where !Self.hasHandler(signal, SIG_IGN) { Self.forward(signal) }
        // A separate queue has its own thread, even if all others are blocked.
        DispatchQueue(label: "apns-legacy.signals").async {
            Self.change(SIG_UNBLOCK, Self.stopping)
            Self.read()
        }
    }

    /// Passes signals to a function, on a thread of its own, one at a time; those that wait are the first.
    ///
    /// If the previous receiver is at work, this waits until it has returned.
    static func receive(_ kinds: [CInt], _ body: @escaping @Sendable (CInt) -> Void) {
        guard Self.output.load(ordering: .sequentiallyConsistent) >= 0 else { return }
        for signal in kinds { Self.forward(signal) }
        Self.state.withLockedValue { state in
            state.receiver = body
            for signal in state.waiting { body(signal) }
            state.waiting = []
        }
    }

    /// Stops catching signals; those that arrived have their default effect.
    static func end() {
        for signal in Self.stopping where !Self.hasHandler(signal, SIG_IGN) { _ = Glibc.signal(signal, SIG_DFL) }
        Self.change(SIG_UNBLOCK, Self.stopping)
        Self.receive([]) { signal in kill(getpid(), signal) }
    }

    private static func read() {
        let input = Self.input.load(ordering: .sequentiallyConsistent)
        while true {
            var number: UInt8 = 0
            let count = unsafe Glibc.read(input, &number, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return }
            Self.state.withLockedValue { state in
                if let receiver = state.receiver { receiver(CInt(number)) } else { state.waiting.append(CInt(number)) }
            }
        }
    }

    /// Blocks or unblocks signals in this thread.
    private static func change(_ how: CInt, _ signals: [CInt]) {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal) }
        unsafe pthread_sigmask(how, &set, nil)
    }

    private static func forward(_ signal: CInt) {
        Self.handle(signal, SA_RESTART) { signal in
            var number = UInt8(truncatingIfNeeded: signal)
            let code = errno
            _ = unsafe write(ProcessSignals.output.load(ordering: .sequentiallyConsistent), &number, 1)
            errno = code
        }
    }

    /// Sets the handler of a signal, which may do very little.
    static func handle(_ signal: CInt, _ flags: CInt, _ handler: @convention(c) (CInt) -> Void) {
        var action = sigaction()
        unsafe action.__sigaction_handler.sa_handler = handler
        action.sa_flags = flags
        unsafe sigaction(signal, &action, nil)
    }

    /// Whether a signal has this handler: `SIG_IGN` if the process was started with it ignored, as under `nohup`.
    static func hasHandler(_ signal: CInt, _ handler: __sighandler_t?) -> Bool {
        var action = sigaction()
        unsafe sigaction(signal, nil, &action)
        let current = unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
        return unsafe current == unsafeBitCast(handler, to: Int.self)
    }
}
