// SPDX-License-Identifier: Apache-2.0

/// How many rows go in a transaction, so that it holds its lock for ``TokenTableLimits/lockDuration``.
struct TokenTableBatchSize {
    /// The rows of the next batch, 1 to the most that was given.
    private(set) var rowCount: Int
    private let rowCountMax: Int
    /// The last few batches.
    private var batches: [(rowCount: Int, duration: Duration)] = []

    init(rowCountMax: Int) {
        self.rowCountMax = rowCountMax
        self.rowCount = min(rowCountMax, TokenTableLimits.batchRowCountFirst)
    }

    /// Takes in how long a batch held its lock.
    ///
    /// A row's time is that of the last batch or that of the last few together, whichever is longer, since a disk that
    /// was slow a moment ago is likely to be so again. The longest of the few would not do: where commits take their
    /// time whatever their size, small batches have costly rows, and would become smaller and smaller.
    mutating func note(rowCount: Int, duration: Duration) {
        // The last rows of a portion say nothing, unless there were few of them for want of time.
        guard rowCount * 2 >= self.rowCount || duration >= TokenTableLimits.changeDurationMax else { return }
        self.batches.append((max(1, rowCount), duration))
        if self.batches.count > TokenTableLimits.rememberedBatchCount { self.batches.removeFirst() }
        let together =
            self.batches.reduce(Duration.zero) { $0 + $1.duration } / self.batches.reduce(0) { $0 + $1.rowCount }
        let cost = max(duration / max(1, rowCount), together)
        guard cost > .zero else { return }
        let fitting = min(TokenTableLimits.lockDuration / cost, Double(self.rowCount) * 1.5 + 1)
        self.rowCount = min(max(Int(fitting), self.rowCount / 4, 1), self.rowCountMax)
    }

    /// Makes the next batch half as large, since readers did not let this one commit.
    mutating func halve() { self.rowCount = max(1, self.rowCount / 2) }
}
