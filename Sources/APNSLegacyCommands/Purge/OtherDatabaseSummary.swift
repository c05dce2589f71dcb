// SPDX-License-Identifier: Apache-2.0

/// What went to a database of another kind.
struct OtherDatabaseSummary {
    var tokenCount: Int
    var batchCount: Int
    var skippedCount: Int
    var verb: String

    /// One line for people, or two.
    var text: String {
        var text = "purge apply: \(SendSummary.counted(UInt64(self.tokenCount), "token")) \(self.verb) in "
        text += self.batchCount == 1 ? "1 batch" : "\(SendSummary.grouped(UInt64(self.batchCount))) batches"
        if self.skippedCount > 0 {
            text += "; \(SendSummary.grouped(UInt64(self.skippedCount))) left out, since their topic has "
            text += "characters that no bundle identifier has"
        }
        return text
    }

    /// One JSON object.
    var json: String {
        "{\"tokens\":\(self.tokenCount),\"batches\":\(self.batchCount),\"skipped\":\(self.skippedCount)}"
    }
}
