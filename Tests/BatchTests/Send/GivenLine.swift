// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Batch

@testable import APNSProvider

/// A line that a source gave to a test, which provides its outcome.
struct GivenLine {
    let line: UInt64
    private let chunk: NotificationChunk
    private let index: Int
    private let token: DeviceToken

    /// Takes lines from a source like a connection.
    static func take(_ countMax: Int, from source: SendSource) -> (lines: [GivenLine], supply: ProviderSupply) {
        let (notifications, chunk, supply) = NotificationChunk.fetch(from: source, countMax: countMax)
        var tags: [UInt64] = []
        chunk.marks.forEachTagRange(in: notifications.indices) { tags += Array($0) }
        let lines = zip(notifications, tags).enumerated().map { index, line in
            GivenLine(line: line.1, chunk: chunk, index: index, token: line.0.token)
        }
        return (lines, supply)
    }

    func settle(_ outcome: DeliveryOutcome) {
        self.chunk.settle(self.index, self.token, DeliveryReport(outcome, attempts: 1))
    }
}
