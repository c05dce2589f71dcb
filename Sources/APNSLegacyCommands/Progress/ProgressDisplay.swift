// SPDX-License-Identifier: Apache-2.0

import Dispatch
import NIOConcurrencyHelpers

/// When the progress of a command is shown.
package struct ProgressTiming: Sendable {
    /// How often it is updated on a terminal.
    package var barInterval = Duration.milliseconds(200)
    /// How often it is logged otherwise.
    package var logInterval = Duration.seconds(60)

    /// Creates the default timing.
    package init() {}
}

/// Shows the progress of a command: on a terminal as a line that is redrawn, otherwise as a log line every minute.
final class ProgressDisplay: @unchecked Sendable {
    // A source may be canceled from any thread.
    private let console: Console
    // A separate queue has its own thread, even if the command keeps all others busy.
    private let queue = DispatchQueue(label: "apns-legacy.progress")
    private let timer: any DispatchSourceTimer

    /// Starts to show progress.
    init(
        _ environment: CommandEnvironment,
        isPlain: Bool = false,
        delay: Duration = .seconds(1),
        _ snapshot: @escaping @Sendable () -> ProgressSnapshot
    ) {
        let console = environment.console
        let isDrawn = !isPlain && environment.drawsProgress
        let timing = environment.progressTiming
        let interval = isDrawn ? timing.barInterval : timing.logInterval
        self.console = console
        self.timer = DispatchSource.makeTimerSource(queue: self.queue)
        let start = ContinuousClock.now
        let box = NIOLockedValueBox(ProgressLine())
        box.withLockedValue { $0.update(snapshot(), elapsed: .zero) }
        self.timer.setEventHandler {
            let elapsed = ContinuousClock.now - start
            let line = box.withLockedValue { line in
                line.update(snapshot(), elapsed: elapsed)
                return line
            }
            if isDrawn {
                if elapsed >= delay { console.show(line.text(columnCount: console.columnCount)) }
            } else {
                console.emit("Progress: \(line.plainText)")
            }
        }
        let nanoseconds = DispatchTimeInterval.nanoseconds(Int(interval / .nanoseconds(1)))
        self.timer.schedule(deadline: .now() + nanoseconds, repeating: nanoseconds)
        if isDrawn { console.beginBar() }
        self.timer.activate()
    }

    /// Stops showing progress, and clears the line.
    func end() {
        self.timer.cancel()
        // Waits until a line that is being drawn is complete.
        self.queue.sync {}
        self.console.endBar()
    }
}

extension CommandEnvironment {
    /// Whether progress is redrawn in place, which needs a capable terminal.
    var drawsProgress: Bool {
        guard self.console.isTerminal, self.variables["TERM"] != "dumb" else { return false }
        let isContinuous = self.variables["CI"] ?? ""
        return isContinuous.isEmpty || isContinuous == "false"
    }
}
