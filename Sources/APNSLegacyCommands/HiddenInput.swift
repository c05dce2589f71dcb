// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// A terminal that does not show what is typed, until this ends.
///
/// A signal that ends or stops the process in between takes effect when the terminal shows again what is typed.
final class HiddenInput {
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    /// Where the handler writes the number of its signal, since more may not be done there; -1 for nowhere.
    private static let handlerOutput = Atomic<CInt>(-1)

    private let terminal: CInt
    private var settings = termios()
    private let signalInput: CInt
    private let signalOutput: CInt
    private var oldActions: [(signal: CInt, action: sigaction)] = []

    /// Hides what is typed; `nil` where this is no terminal, or the system allows too little.
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

    /// Shows again what is typed.
    func end() { self.show() }

    /// Waits until there is something to read.
    ///
    /// - Parameter didContinue: is called when the process was stopped and goes on.
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
            // Ends or stops the process, unless it does something else with this signal.
            raise(CInt(number))
            self.hide()
            didContinue()
        }
    }
}
