// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Batch

@testable import APNSProvider

/// A line that a source gave to a test, which provides its outcome.
struct GivenLine {
    let line: UInt64
    private let chunk: NotificationChunk
    private let position: NotificationChunk.Position

    /// Takes lines from a source like a connection.
    static func take(_ countMax: Int, from source: SendSource) -> (lines: [GivenLine], supply: ProviderSupply) {
        let (chunk, supply) = NotificationChunk.take(from: source, countMax: countMax)
        guard let chunk else { return ([], supply) }
        var tags: [UInt64] = []
        chunk.chunk.marks.forEachTagRange(in: 0..<chunk.count) { tags += Array($0) }
        var lines: [GivenLine] = []
        chunk.forEach { position, _, _, _, _ in
            lines.append(GivenLine(line: tags[lines.count], chunk: chunk, position: position))
        }
        return (lines, supply)
    }

    func settle(_ outcome: DeliveryOutcome) {
        self.chunk.settle(self.position, DeliveryReport(outcome, attempts: 1))
    }
}
