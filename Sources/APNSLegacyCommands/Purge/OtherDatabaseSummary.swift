// SPDX-License-Identifier: Apache-2.0

/// What went to a database of another kind.
struct OtherDatabaseSummary {
    var tokenCount: Int
    var batchCount: Int
    var skippedCount: Int
    var verb: String

    /// One line for people, or two.
    var text: String {
        var text = "purge apply: \(self.tokenCount.counted("token")) \(self.verb) in "
        text += self.batchCount.counted("batch", "batches")
        if self.skippedCount > 0 {
            text += "; \(self.skippedCount.grouped) left out, since their topic has "
            text += "characters that no bundle identifier has"
        }
        return text
    }

    /// One JSON object.
    var json: String {
        "{\"tokens\":\(self.tokenCount),\"batches\":\(self.batchCount),\"skipped\":\(self.skippedCount)}"
    }
}
