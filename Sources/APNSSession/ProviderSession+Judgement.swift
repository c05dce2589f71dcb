// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension ProviderSession {
    /// Acts on what the end of a connection says, with or without an answer.
    mutating func judge(
        _ placement: Placement,
        _ status: ErrorResponse.Status?,
        on open: Open,
        now: Duration,
        jitter: Double
    ) {
        switch placement {
        case .provesAll: self.takeProof(before: open.written, reached: open.written, on: open)
        case .proves(let count):
            self.takeProof(before: open.base + count, reached: max(open.left, open.base + count), on: open)
        case .names(let index):
            let named = open.base + index
            self.attemptEnds.insertSorted(max(open.left, named + 1))
            self.accept(before: named)
            self.dismiss(open)
            self.refuse(named, status ?? .unknown, now: now, jitter: jitter)
        case .unplaceable: self.judgeUnplaceable(status ?? .unknown, on: open, now: now, jitter: jitter)
        case .silence where status != nil:
            // Whoever tells of a shutdown has let the provider in.
            self.hasAnswered = true
            self.giveUp(open, now: now, jitter: jitter)
        case .silence: self.dieSilently(open, now: now, jitter: jitter)
        }
    }

    mutating func takeProof(before end: UInt64, reached: UInt64, on open: Open) {
        self.attemptEnds.insertSorted(reached)
        self.accept(before: end)
        self.dismiss(open)
        self.prove()
    }

    /// The notification is the first unsettled one; the gateway named it.
    mutating func refuse(_ number: UInt64, _ status: ErrorResponse.Status, now: Duration, jitter: Double) {
        if status == .processingError {
            let count = self.retry.number == number ? self.retry.count + 1 : 1
            self.retry = (number, count)
            if count <= self.limits.processingErrorRetryCountMax {
                self.connectNotBefore = now + self.limits.backOff(failures: count + 1, jitter: jitter)
                return
            }
        }
        self.settle(before: number + 1, .rejected(.binary(status)))
        self.prove()
        self.countInvalidToken(status)
    }

    /// The answer names nothing that was written, so one of all those written spoiled the connection.
    mutating func judgeUnplaceable(
        _ status: ErrorResponse.Status,
        on open: Open,
        now: Duration,
        jitter: Double
    ) {
        let count = open.written - self.settled
        guard open.left > self.settled, count == 1 || self.limits.policy == .atLeastOnce else {
            return self.dieSilently(open, now: now, jitter: jitter)
        }
        self.attemptEnds.insertSorted(open.left)
        guard count > 1 else {
            self.dismiss(open)
            self.settle(before: self.settled + 1, .rejected(.binary(status)))
            self.prove()
            // Whatever the status, many in a row mean that it is not the notifications.
            self.countInvalidToken(.invalidToken)
            return
        }
        self.doubtful = max(self.doubtful, open.left)
        self.suspicion = Suspicion(end: open.left, part: max(1, (open.left - self.settled) / 2))
        self.dismiss(open)
    }

    /// The connection is given up while it is still alive, so that what is in this process may still leave it.
    mutating func giveUp(_ open: Open, now: Duration, jitter: Double) {
        var open = open
        open.left = open.written
        self.dieSilently(open, now: now, jitter: jitter)
    }

    /// The connection ended without a word that can be used.
    mutating func dieSilently(_ open: Open, now: Duration, jitter: Double) {
        let count = open.left - self.settled
        let wasIdle = open.written == self.settled && now - open.openedAt >= ProviderSession.quickCloseMax
        if count > 0 { self.attemptEnds.insertSorted(open.left) }
        self.dismiss(open)
        let settledBefore = self.settled
        if count > 0 {
            switch self.limits.policy {
            case .atMostOnce: self.settle(before: open.left, .indeterminate(nil))
            case .atLeastOnce: self.doubt(before: open.left)
            }
        }
        guard !wasIdle else { return }
        self.silentCount += 1
        if self.limits.hasNoIdentifiers && count > 0 && self.limits.policy == .atLeastOnce {
            // This is how the gateway rejects, so to close in on the one that it does not want leads somewhere.
            guard count == 1 else { return }
            guard self.settled == settledBefore else { return self.countGivenUp() }
            return self.countFruitless(now: now, jitter: jitter)
        }
        self.countFruitless(now: now, jitter: jitter)
        if !self.hasProof, !self.hasAnswered, self.silentCount >= self.limits.refusedConnectionCountMax {
            self.stop(.refused)
        }
    }

    /// A notification was given up that the gateway closed on each time: another failed connection is not held
    /// against it, but many in a row mean that it is not the notifications.
    mutating func countGivenUp() {
        self.fruitlessCount = 0
        self.givenUpRunCount += 1
        if !self.hasProof, !self.hasAnswered, self.givenUpRunCount >= self.limits.refusedConnectionCountMax {
            return self.stop(.refused)
        }
        if self.givenUpRunCount >= ProviderSession.givenUpRunCountMax { self.stop(.unavailable) }
    }

    /// Sends all before `end` again as possible duplicates, in smaller parts if that has happened before.
    mutating func doubt(before end: UInt64) {
        let count = end - self.settled
        self.doubtful = max(self.doubtful, end)
        if count == 1 {
            let deaths = self.loneDeath.number == self.settled ? self.loneDeath.count + 1 : 1
            self.loneDeath = (self.settled, deaths)
            self.suspicion = Suspicion(end: max(end, self.suspicion?.end ?? 0), part: 1)
            guard deaths >= self.limits.silentAttemptCountMax else { return }
            self.settle(before: end, .indeterminate(nil))
            self.narrow()
        } else if self.limits.hasNoIdentifiers {
            self.suspicion = Suspicion(end: end, part: max(1, count / 2))
        } else if self.silentCount >= 1 {
            self.suspicion = Suspicion(end: end, part: max(1, count / ProviderSession.silentDivisor))
        }
    }

    /// After something was settled: the suspects are fewer, or none.
    mutating func narrow() {
        guard let suspicion = self.suspicion else { return }
        guard suspicion.end > self.settled else {
            self.suspicion = nil
            return
        }
        self.suspicion?.part = max(1, (suspicion.end - self.settled) / 2)
    }

    /// The gateway said something that could be placed: the service works.
    mutating func prove() {
        self.hasProof = true
        self.fruitlessCount = 0
        self.silentCount = 0
        self.givenUpRunCount = 0
        self.narrow()
    }

    mutating func countFruitless(now: Duration, jitter: Double) {
        self.fruitlessCount += 1
        self.connectNotBefore = now + self.limits.backOff(failures: self.fruitlessCount, jitter: jitter)
        if self.fruitlessCount >= self.limits.fruitlessConnectionCountMax { self.stop(.unavailable) }
    }

    mutating func countInvalidToken(_ status: ErrorResponse.Status) {
        guard status == .invalidToken else { return }
        self.invalidTokenRunCount += 1
        let limit = self.limits.invalidTokenRunCountMax
        if limit > 0, self.invalidTokenRunCount >= limit { self.stop(.tooManyInvalidTokens) }
    }
}
