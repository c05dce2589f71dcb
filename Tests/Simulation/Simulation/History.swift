// SPDX-License-Identifier: Apache-2.0

import CSimulatedKernel
import NIOConcurrencyHelpers

/// What every party saw, and the first thing that is wrong.
final class History: Sendable {
    private let isVerbose: Bool
    private let firstFailure = NIOLockedValueBox<String?>(nil)

    init(isVerbose: Bool) { self.isVerbose = isVerbose }

    var failure: String? { self.firstFailure.withLockedValue { $0 } }

    /// Records an event; also in the digest, so that a replay that differs is noticed.
    func note(_ text: @autoclosure () -> String) {
        let text = text()
        for byte in text.utf8 { sim_note(UInt64(byte)) }
        if self.isVerbose { print("\(Double(sim_now() / 1000) / 1_000_000): \(text)") }
    }

    func fail(_ text: String) {
        self.note(text)
        self.firstFailure.withLockedValue { $0 = $0 ?? text }
    }
}
