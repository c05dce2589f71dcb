// SPDX-License-Identifier: Apache-2.0

/// What a queue contains, and what its workers do.
package struct QueueStatus: Sendable {
    /// A batch.
    package struct Batch: Sendable {
        package var id: Int64 = 0
        package var topic = ""
        package var environment = ""
        package var state = ""
        package var notificationCount: Int64 = 0
        package var badLineCount: Int64 = 0
        package var counts = QueueCounts()
        /// Notifications without an outcome that may have arrived.
        package var doubtCount: Int64 = 0
        /// Those among them whose worker is dead.
        package var orphanCount: Int64 = 0
    }

    /// A worker.
    package struct Worker: Sendable {
        package var id: Int64 = 0
        package var host = ""
        package var process: Int64 = 0
        /// The seconds until its lease ends; negative if it has ended.
        package var leaseSeconds = 0.0
        /// The number of chunks that it holds.
        package var heldCount: Int64 = 0
        package var provedCount: Int64 = 0
        /// Its notifications a second; 0 if its lease has ended.
        package var rate = 0.0
    }

    /// The oldest snapshot, behind which dead tuples cannot be removed.
    package struct Snapshot: Sendable {
        /// The number of transactions since.
        package var age: Int64 = 0
        /// Who holds it.
        package var holder = ""
    }

    package var batches: [Batch] = []
    package var workers: [Worker] = []
    /// The number of dead tuples of each table that has some.
    package var deadTuples: [(table: String, count: Int64)] = []
    package var snapshot: Snapshot?

    package init() {}

    /// The notifications a second of all workers whose lease has not ended.
    package var rate: Double { self.workers.reduce(0) { $0 + $1.rate } }

    /// The number of workers whose lease has ended.
    package var expiredCount: Int { self.workers.count { $0.leaseSeconds <= 0 } }

    /// The seconds until all ready batches are done at the present rate; `nil` if there is none.
    package var remainingSeconds: Double? {
        let ready = self.batches.filter { $0.state == "ready" }
        let openCount = ready.reduce(0) { $0 + $1.notificationCount - $1.counts.total }
        return openCount > 0 && self.rate > 0 ? Double(openCount) / self.rate : nil
    }
}
