// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// Restores a terminal before a signal ends or suspends the process: clears a progress bar, and shows what is typed.
///
/// Signals that the command handles or ignores are left unchanged.
enum TerminalSignals {
    private static let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP]

    // For the signal handler, which may do very little.

    /// The terminal with a progress bar; -1 if there is none.
    private static let bar = Atomic<CInt>(-1)
    /// The terminal that does not show what is typed; -1 if there is none.
    private static let input = Atomic<CInt>(-1)
    nonisolated(unsafe) private static var visible = termios()
    nonisolated(unsafe) private static var hidden = termios()
    /// The question that is asked, and where, to repeat it when the process continues.
    nonisolated(unsafe) private static var question: UnsafeMutablePointer<CChar>?
    nonisolated(unsafe) private static var output: CInt = -1

    /// Clears the bar on a terminal when a signal arrives.
    static func beginBar(_ terminal: CInt) {
        Self.bar.store(terminal, ordering: .sequentiallyConsistent)
        Self.begin()
    }

    /// Stops clearing the bar.
    static func endBar() {
        Self.bar.store(-1, ordering: .sequentiallyConsistent)
        Self.endUnused()
    }

    /// Hides what is typed.
    ///
    /// Returns `false` if the descriptor is not a terminal.
    static func hideInput(_ terminal: CInt, question: String, on output: CInt) -> Bool {
        guard unsafe tcgetattr(terminal, &Self.visible) == 0 else { return false }
        unsafe Self.hidden = Self.visible
        unsafe Self.hidden.c_lflag &= ~tcflag_t(ECHO)
        unsafe Self.question = strdup(question)
        unsafe Self.output = output
        Self.input.store(terminal, ordering: .sequentiallyConsistent)
        Self.begin()
        unsafe tcsetattr(terminal, TCSAFLUSH, &Self.hidden)
        return true
    }

    /// Shows what is typed.
    static func showInput() {
        let terminal = Self.input.exchange(-1, ordering: .sequentiallyConsistent)
        unsafe tcsetattr(terminal, TCSAFLUSH, &Self.visible)
        Self.endUnused()
        unsafe free(Self.question)
        unsafe Self.question = nil
    }

    private static func begin() {
        for signal in Self.signals where ProcessSignals.hasHandler(signal, SIG_DFL) { Self.handle(signal) }
    }

    private static func endUnused() {
        guard Self.bar.load(ordering: .sequentiallyConsistent) < 0,
            Self.input.load(ordering: .sequentiallyConsistent) < 0
        else { return }
        for signal in Self.signals where ProcessSignals.hasHandler(signal, Self.restore) {
            _ = Glibc.signal(signal, SIG_DFL)
        }
    }

    /// The signal that the handler raises has its default effect at once.
    private static func handle(_ signal: CInt) {
        ProcessSignals.handle(signal, CInt(bitPattern: UInt32(SA_RESETHAND)) | SA_NODEFER | SA_RESTART, Self.restore)
    }

    private static let clearing: StaticString = "\r\u{1B}[K"

    private static let restore: @convention(c) (CInt) -> Void = { signal in
        let code = errno
        let bar = TerminalSignals.bar.load(ordering: .sequentiallyConsistent)
        let input = TerminalSignals.input.load(ordering: .sequentiallyConsistent)
        let clearing = TerminalSignals.clearing
        if bar >= 0 { _ = unsafe write(bar, clearing.utf8Start, clearing.utf8CodeUnitCount) }
        if input >= 0 { unsafe tcsetattr(input, TCSANOW, &TerminalSignals.visible) }
        raise(signal)
        // The process was suspended, and continues.
        TerminalSignals.handle(signal)
        if input >= 0, let question = unsafe TerminalSignals.question {
            unsafe tcsetattr(input, TCSANOW, &TerminalSignals.hidden)
            _ = unsafe write(TerminalSignals.output, question, strlen(question))
        }
        errno = code
    }
}
