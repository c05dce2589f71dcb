// SPDX-License-Identifier: Apache-2.0

import APNSWire
import BatchFiles

/// The progress bar on a terminal.
struct ProgressBar: Sendable {
    private let total: UInt64?
    private let start = ContinuousClock.now

    private static let interval = Duration.milliseconds(200)
    private static let width = 24

    /// - Parameter total: bytes of the input, where they are known.
    init(total: UInt64?) { self.total = total }

    /// Shows how far it is, until the task is cancelled.
    func show(_ progress: @Sendable () -> SendProgress, on console: Console) async throws {
        while true {
            try await Task.sleep(for: ProgressBar.interval)
            console.show(self.text(progress(), ContinuousClock.now - self.start))
        }
    }

    func text(_ progress: SendProgress, _ elapsed: Duration) -> String {
        let settled = progress.outcomeCounts.total
        let rate = UInt64(Double(settled) / max(elapsed / .seconds(1), 0.001))
        var text = ""
        if let total = self.total, total > 0 {
            let part = min(1, Double(progress.readByteCount) / Double(total))
            let filled = Int(part * Double(ProgressBar.width))
            text +=
                "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: ProgressBar.width - filled)
            text += "] \(Int(part * 100))% read  "
        }
        text += "\(progress.sentCount.grouped) taken, \(settled.grouped) settled"
        let refused = settled - progress.outcomeCounts[.accepted]
        if refused > 0 { text += ", \(refused.grouped) not accepted" }
        return text + ", \(rate.grouped)/s"
    }
}
