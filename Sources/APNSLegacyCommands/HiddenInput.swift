// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// Turns off the echo of a terminal while a secret is typed.
///
/// A signal that ends or stops the process takes effect after the echo is on again.
final class HiddenInput {
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    /// The descriptor to which the signal handler writes the signal's number; -1 for none.
    private static let handlerOutput = Atomic<CInt>(-1)

    private let terminal: CInt
    private var settings = termios()
    private let signalInput: CInt
    private let signalOutput: CInt
    private var oldActions: [(signal: CInt, action: sigaction)] = []

    /// Turns off the echo; `nil` if the descriptor is not a terminal, or a system call fails.
    ///
    /// - Parameter terminal: the descriptor.
    init?(_ terminal: CInt) {
        self.terminal = terminal
        var pair: [CInt] = [-1, -1]
        guard unsafe tcgetattr(terminal, &self.settings) == 0, unsafe pipe(&pair) == 0 else {
            return nil
        }
        for descriptor in pair {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        }
        (self.signalInput, self.signalOutput) = (pair[0], pair[1])
        self.hide()
    }

    deinit {
        close(self.signalInput)
        close(self.signalOutput)
    }

    private func hide() {
        Self.handlerOutput.store(self.signalOutput, ordering: .sequentiallyConsistent)
        for signal in Self.signals {
            var (action, old) = (sigaction(), sigaction())
            unsafe action.__sigaction_handler.sa_handler = { signal in
                var number = UInt8(truncatingIfNeeded: signal)
                let code = errno
                _ = unsafe write(HiddenInput.handlerOutput.load(ordering: .sequentiallyConsistent), &number, 1)
                errno = code
            }
            guard unsafe sigaction(signal, nil, &old) == 0 else { continue }
            // As under nohup.
            if Self.isIgnored(old) { continue }
            if unsafe sigaction(signal, &action, nil) == 0 { self.oldActions.append((signal, old)) }
        }
        var hidden = self.settings
        hidden.c_lflag &= ~tcflag_t(ECHO)
        unsafe tcsetattr(self.terminal, TCSAFLUSH, &hidden)
    }

    private static func isIgnored(_ action: sigaction) -> Bool {
        let handler = unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
        let ignoring = unsafe unsafeBitCast(SIG_IGN, to: Int.self)
        return handler == ignoring
    }

    private func show() {
        unsafe tcsetattr(self.terminal, TCSAFLUSH, &self.settings)
        for (signal, action) in self.oldActions {
            var action = action
            unsafe sigaction(signal, &action, nil)
        }
        self.oldActions = []
        Self.handlerOutput.store(-1, ordering: .sequentiallyConsistent)
    }

    /// Turns the echo on again.
    func end() { self.show() }

    /// Waits until there is input.
    ///
    /// - Parameter didContinue: called when the stopped process continues.
    func wait(didContinue: () -> Void) {
        while true {
            var descriptors = [
                pollfd(fd: self.terminal, events: Int16(POLLIN), revents: 0),
                pollfd(fd: self.signalInput, events: Int16(POLLIN), revents: 0),
            ]
            let count = unsafe poll(&descriptors, 2, -1)
            if count < 0, errno == EINTR { continue }
            var number: UInt8 = 0
            guard count > 0, unsafe read(self.signalInput, &number, 1) == 1 else { return }
            self.show()
            // With the old actions restored, this ends or stops the process.
            ProcessSignals.change(SIG_UNBLOCK, [CInt(number)])
            raise(CInt(number))
            self.hide()
            didContinue()
        }
    }
}
