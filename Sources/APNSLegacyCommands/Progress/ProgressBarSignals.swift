// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// Clears a progress bar before a signal ends or suspends the process.
///
/// Signals that the command handles or ignores are left unchanged.
enum ProgressBarSignals {
    private static let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM]

    /// The terminal with the bar, for the signal handler, which may do very little; -1 if no bar is shown.
    private static let terminal = Atomic<CInt>(-1)

    /// Starts to clear the bar on a terminal when a signal arrives.
    static func begin(_ descriptor: CInt) {
        Self.terminal.store(descriptor, ordering: .sequentiallyConsistent)
        for signal in Self.signals where Self.handler(signal) == Self.address(SIG_DFL) {
            var action = sigaction()
            unsafe action.__sigaction_handler.sa_handler = Self.clear
            // The signal then has its previous effect.
            action.sa_flags = CInt(bitPattern: UInt32(SA_RESETHAND))
            unsafe sigaction(signal, &action, nil)
        }
        if Self.handler(SIGTSTP) == Self.address(SIG_DFL) { Self.handleSuspension() }
    }

    private static func handleSuspension() {
        var action = sigaction()
        unsafe action.__sigaction_handler.sa_handler = Self.suspend
        // The signal that the handler raises suspends the process at once.
        action.sa_flags = CInt(bitPattern: UInt32(SA_RESETHAND)) | SA_NODEFER
        unsafe sigaction(SIGTSTP, &action, nil)
    }

    /// Stops clearing.
    static func end() {
        for signal in Self.signals where Self.handler(signal) == Self.address(Self.clear) {
            _ = Glibc.signal(signal, SIG_DFL)
        }
        if Self.handler(SIGTSTP) == Self.address(Self.suspend) { _ = Glibc.signal(SIGTSTP, SIG_DFL) }
        Self.terminal.store(-1, ordering: .sequentiallyConsistent)
    }

    private static let clear: @convention(c) (CInt) -> Void = { signal in
        ProgressBarSignals.clearLine()
        raise(signal)
    }

    private static let suspend: @convention(c) (CInt) -> Void = { signal in
        ProgressBarSignals.clearLine()
        raise(signal)
        // The process was continued.
        ProgressBarSignals.handleSuspension()
    }

    private static func clearLine() {
        let terminal = ProgressBarSignals.terminal.load(ordering: .sequentiallyConsistent)
        var (first, second, third, fourth) = (UInt8(0x0D), UInt8(0x1B), UInt8(0x5B), UInt8(0x4B))
        if terminal >= 0 {
            _ = unsafe write(terminal, &first, 1)
            _ = unsafe write(terminal, &second, 1)
            _ = unsafe write(terminal, &third, 1)
            _ = unsafe write(terminal, &fourth, 1)
        }
    }

    private static func handler(_ signal: CInt) -> Int {
        var action = sigaction()
        unsafe sigaction(signal, nil, &action)
        return unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
    }

    private static func address(_ handler: __sighandler_t?) -> Int { unsafe unsafeBitCast(handler, to: Int.self) }
}
