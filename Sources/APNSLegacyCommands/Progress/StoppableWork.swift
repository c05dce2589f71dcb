// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import Dispatch
import UnixSignals

extension CommandEnvironment {
    /// Runs blocking work that signals can stop: the first asks it to finish early, the second ends the process.
    ///
    /// - Parameters:
    ///   - words: the command, as in `purge apply`.
    ///   - reaction: the message after the first signal.
    ///   - work: receives the signals, and checks them from time to time.
    /// - Returns: what the work returns.
    /// - Throws: what the work throws.
    func stoppable<Value: Sendable>(
        _ words: String,
        _ reaction: String,
        _ work: @escaping @Sendable (StopSignals) throws -> Value
    ) async throws -> Value {
        let stops = StopSignals()
        let signals = await self.signals([.sigint, .sigterm])
        let (console, exit) = (self.console, self.exit)
        let reacting = Task {
            for await signal in signals {
                stops.receive(signal.rawValue)
                guard stops.count > 1 else {
                    console.briefly { $0.say(reaction) }
                    continue
                }
                console.briefly { console in
                    console.endBar()
                    console.say("apns-legacy \(words): stopped at once; run the same command again")
                }
                exit(ExitStatus.tryAgain.rawValue)
            }
        }
        defer { reacting.cancel() }
        return try await withCheckedThrowingContinuation { continuation in
            DispatchQueue(label: "apns-legacy.work").async {
                continuation.resume(with: Result { try work(stops) })
            }
        }
    }
}
