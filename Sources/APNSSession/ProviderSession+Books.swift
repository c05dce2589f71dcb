// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension ProviderSession {
    mutating func accept(before end: UInt64) {
        guard end > self.settled else { return }
        self.invalidTokenRunCount = 0
        self.settle(before: end, .accepted)
    }

    /// Gives all unsettled notifications before a number their outcome.
    mutating func settle(before end: UInt64, _ outcome: DeliveryOutcome) {
        while self.settled < end {
            let start = self.settled
            var next = end
            if self.doubtful > start { next = min(next, self.doubtful) }
            self.attemptEnds.removeFirst { $0 <= start }
            if let attemptEnd = self.attemptEnds.first { next = min(next, attemptEnd) }
            self.settled = next
            self.settlements.append(
                Settlement(
                    numbers: start..<next,
                    outcome: outcome,
                    attempts: self.attemptEnds.count,
                    possibleDuplicate: start < self.doubtful
                )
            )
        }
        self.rebase()
    }

    /// A connection that nothing was written to begins where the settled numbers end, also when they end later.
    mutating func rebase() {
        guard case .open(let open) = self.link, open.written == open.base, open.base < self.settled else { return }
        self.use(open.number, openedAt: open.openedAt)
    }

    /// Gives the connection up and takes the standby in its place.
    mutating func dismiss(_ open: Open) {
        if self.live.contains(open.number) { self.closesDue.append(open.number) }
        switch self.standby {
        case .none, .failed: self.link = .none
        case .connecting(let number): self.link = .connecting(number)
        case .ready(let number, let since): self.use(number, openedAt: since)
        }
        self.standby = .none
    }

    /// Writes to this connection from now on, beginning with what is not settled.
    mutating func use(_ number: ConnectionNumber, openedAt: Duration) {
        self.link = .open(
            Open(
                number: number,
                base: self.settled,
                written: self.settled,
                left: self.settled,
                openedAt: openedAt,
                lastWriteAt: openedAt,
                probeDeadline: nil
            )
        )
    }

    mutating func dropStandby(_ number: ConnectionNumber, isClosed: Bool) {
        switch self.standby {
        case .connecting(number), .ready(number, since: _):
            self.standby = .failed
            if !isClosed { self.closesDue.append(number) }
        case .none, .connecting, .ready, .failed: break
        }
    }

    /// No connection can be opened any more: what the present one has written is proved, then the session stops.
    mutating func forbid() {
        if case .open(let open) = self.link, open.written > self.settled {
            self.isForbidden = true
        } else {
            self.stop(.notPermitted)
        }
    }

    /// Settles what is left and closes everything.
    mutating func stop(_ ending: ProviderEnding) {
        guard self.ending == nil else { return }
        self.ending = ending
        self.leftCount = self.taken - self.settled
        if case .open(let open) = self.link, open.written > self.settled {
            self.attemptEnds.insertSorted(open.written)
            self.settle(before: open.written, .indeterminate(nil))
        }
        self.settle(before: max(self.settled, min(self.doubtful, self.taken)), .indeterminate(nil))
        self.settle(before: self.taken, .unsent(nil))
        self.link = .none
        self.standby = .none
        self.closesDue = self.live.sorted()
    }
}

extension [UInt64] {
    /// Inserts a number where it belongs in an ascending array; the usual place is the end.
    mutating func insertSorted(_ number: UInt64) {
        var index = self.endIndex
        while index > self.startIndex, self[index - 1] > number { index -= 1 }
        self.insert(number, at: index)
    }

    /// Removes from the head as long as the condition holds.
    mutating func removeFirst(while condition: (UInt64) -> Bool) {
        let count = self.prefix(while: condition).count
        if count > 0 { self.removeFirst(count) }
    }
}
