// SPDX-License-Identifier: Apache-2.0

/// How many rows go in a transaction, so that it holds its lock for ``TokenTableLimits/lockDuration``.
struct TokenTableBatchSize {
    /// The rows of the next batch, 1 to the most that was given.
    private(set) var rowCount: Int
    private let rowCountMax: Int
    /// What a row took in each of the last batches.
    private var costs: [Duration] = []

    init(rowCountMax: Int) {
        self.rowCountMax = rowCountMax
        self.rowCount = min(rowCountMax, TokenTableLimits.batchRowCountFirst)
    }

    /// Takes in how long a batch held its lock.
    ///
    /// The slowest of the last few counts, since a disk that was slow a moment ago is likely to be so again.
    mutating func note(rowCount: Int, duration: Duration) {
        // Few rows in a short time, as the last ones of a portion, say nothing: their commit costs more than they do.
        guard rowCount * 2 >= self.rowCount || duration * 2 >= TokenTableLimits.lockDuration else { return }
        self.costs.append(duration / max(1, rowCount))
        if self.costs.count > TokenTableLimits.rememberedBatchCount { self.costs.removeFirst() }
        guard let cost = self.costs.max(), cost > .zero else { return }
        let fitting = min(TokenTableLimits.lockDuration / cost, Double(self.rowCount) * 1.5 + 1)
        self.rowCount = min(max(Int(fitting), rowCount / 4, 1), self.rowCountMax)
    }

    /// Makes the next batch half as large, since readers did not let this one commit.
    mutating func halve() { self.rowCount = max(1, self.rowCount / 2) }
}
