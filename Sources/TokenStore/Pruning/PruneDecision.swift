// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Decides which rows are due, and counts the reasons.
struct PruneDecision {
    private let layout: TokenTableLayout
    private let dead: DeadTokens
    private let graceSecondCount: Int64
    /// Precomputed, since they are used for each row.
    private let registrationIndex: Int32?
    private let topicIndex: Int32?
    private let activeIndex: Int32?
    /// Arrays, since dictionary look-ups would cost more than the rest of a row.
    private var spellingCounts = [Int](repeating: 0, count: DeviceTokenSpelling.allCases.count)
    private var timeKindCounts = [Int](repeating: 0, count: RegistrationTimeKind.allCases.count)
    private var report = TokenTableReport()

    init(_ layout: TokenTableLayout, _ dead: DeadTokens, graceSecondCount: Int64) {
        self.layout = layout
        self.dead = dead
        self.graceSecondCount = graceSecondCount
        self.registrationIndex = layout.registrationIndex
        self.topicIndex = layout.topicIndex
        self.activeIndex = layout.activeIndex
    }

    /// Decides on a row.
    ///
    /// Returns whether it is due.
    mutating func isDue(_ row: some TokenTableRow) throws -> Bool {
        self.report.rowCount += 1
        let time = self.registrationIndex.map { row.time($0) }
        if case .some(.some(let time)) = time { self.timeKindCounts[time.kind.rawValue] += 1 }
        let isActive = self.activeIndex.map { !row.isZero($0) } ?? true
        let scope = unsafe self.topicIndex.flatMap { unsafe row.text($0) }.flatMap {
            unsafe self.dead.scope(ofTopic: $0)
        }
        let failedAt = try unsafe withUnsafeTemporaryAllocation(byteCount: PurgeLimits.tokenByteCountMax, alignment: 8)
        {
            guard let token = unsafe row.token(self.layout.tokenIndex, into: $0) else {
                self.countUnreadable(row)
                return nil as Int64?
            }
            self.spellingCounts[token.spelling.rawValue] += 1
            let isTimed = time.map { $0 != nil } ?? true
            if isActive, isTimed, scope != nil || self.topicIndex == nil { self.report.candidateCount += 1 }
            let bytes = unsafe UnsafeRawBufferPointer(rebasing: $0[..<token.byteCount])
            return try unsafe self.dead.failure(of: bytes, in: scope)
        }
        guard let failedAt else { return false }
        return try self.isDue(row, failedAt: failedAt, registered: time, isActive: isActive)
    }

    /// Decides on a row whose token is dead.
    private mutating func isDue(
        _ row: some TokenTableRow,
        failedAt: Int64,
        registered: RegistrationTime??,
        isActive: Bool
    ) throws -> Bool {
        self.report.matchedCount += 1
        guard isActive else {
            self.report.inactiveCount += 1
            return false
        }
        if let active = self.activeIndex, row.isText(active) {
            throw TokenTableError.notAFlag(column: self.layout.active ?? "", table: self.layout.name)
        }
        if let registered {
            guard let registered else {
                self.report.unreadableTimeCount += 1
                self.report.unreadableTimeRows.appendIfRoom(self.number(row))
                return false
            }
            guard failedAt > registered.seconds else {
                self.report.registeredLaterCount += 1
                return false
            }
            guard failedAt - self.graceSecondCount > registered.seconds else {
                self.report.graceCount += 1
                return false
            }
            let isClose = failedAt - registered.seconds < TokenTableLimits.zoneSecondCountMax
            if isClose, registered.kind.lacksZone { self.report.zoneDueCount += 1 }
        }
        self.report.dueCount += 1
        return true
    }

    private mutating func countUnreadable(_ row: some TokenTableRow) {
        if row.isEmpty(self.layout.tokenIndex) {
            self.report.emptyCount += 1
        } else {
            self.report.unreadableTokenCount += 1
            self.report.unreadableTokenRows.appendIfRoom(self.number(row))
        }
    }

    /// The row number; in a table without one, the number of earlier rows, since its key may be a token.
    private func number(_ row: some TokenTableRow) -> Int64 {
        self.layout.hasRowNumbers ? row.integer(0) : Int64(self.report.rowCount)
    }

    /// The counts.
    var counts: TokenTableReport {
        var report = self.report
        for spelling in DeviceTokenSpelling.allCases where self.spellingCounts[spelling.rawValue] > 0 {
            report.spellings[spelling] = self.spellingCounts[spelling.rawValue]
        }
        for kind in RegistrationTimeKind.allCases where self.timeKindCounts[kind.rawValue] > 0 {
            report.timeKinds[kind] = self.timeKindCounts[kind.rawValue]
        }
        return report
    }
}

extension [Int64] {
    /// Appends the number of a row, up to a limit.
    mutating func appendIfRoom(_ number: Int64) {
        if self.count < TokenTableLimits.namedRowCount { self.append(number) }
    }
}
