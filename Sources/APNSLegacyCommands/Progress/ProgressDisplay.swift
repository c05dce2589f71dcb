// SPDX-License-Identifier: Apache-2.0

import Dispatch
import NIOConcurrencyHelpers

/// When the progress of a command is shown.
package struct ProgressTiming: Sendable {
    /// How often a terminal shows it.
    package var barInterval = Duration.milliseconds(200)
    /// How often it is logged elsewhere.
    package var logInterval = Duration.seconds(60)

    /// The times of a command that a person runs.
    package init() {}
}

/// Shows how far a command is until its end: on a terminal in one line that is drawn again and again, elsewhere in a
/// line a minute.
final class ProgressDisplay: @unchecked Sendable {
    // A source may be cancelled from any thread.
    private let console: Console
    // A queue of its own has a thread of its own, also where the command keeps all others busy.
    private let queue = DispatchQueue(label: "apns-legacy.progress")
    private let timer: any DispatchSourceTimer

    /// Begins.
    ///
    /// - Parameters:
    ///   - environment: the console, and whether it is a terminal that can draw.
    ///   - isPlain: whether other messages come that do not go through the console, so that nothing is drawn.
    ///   - delay: how long a command takes at least to be shown on a terminal.
    ///   - snapshot: how far the command is.
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
                console.say("Progress: \(line.plainText)")
            }
        }
        let nanoseconds = DispatchTimeInterval.nanoseconds(Int(interval / .nanoseconds(1)))
        self.timer.schedule(deadline: .now() + nanoseconds, repeating: nanoseconds)
        if isDrawn { console.beginBar() }
        self.timer.activate()
    }

    /// Shows nothing any more, and clears what is shown.
    func end() {
        self.timer.cancel()
        // What is drawn at this moment is drawn first.
        self.queue.sync {}
        self.console.endBar()
    }
}

extension CommandEnvironment {
    /// Whether progress is drawn again and again, as a terminal can show it.
    var drawsProgress: Bool {
        guard self.console.isTerminal, self.variables["TERM"] != "dumb" else { return false }
        let isContinuous = self.variables["CI"] ?? ""
        return isContinuous.isEmpty || isContinuous == "false"
    }
}
