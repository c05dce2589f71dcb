// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// The rules for resends whose provider computed another expiry.
///
/// Such a resend equals the delivered notification in all but the expiry. So does a new notification with the same
/// text from a provider that resends nothing, and it must be delivered. Therefore a single message is never enough: the
/// messages of a connection must be those after an error response, in order and from the first one on.
struct ResendRunRules: Sendable {
    /// The number of distinct notifications with which a run is certain.
    ///
    /// Providers that send one text to all devices of a user do so in the same order each time, but rarely to this
    /// many.
    var distinctCountMin = 5

    /// The maximum difference between the shift of the expiry and the time that has passed, in milliseconds.
    ///
    /// An expiry is in whole seconds.
    var toleranceMilliseconds: Int64 = 2000

    /// The maximum time from the end of the connection with the error response to the first message of a run.
    ///
    /// JavaPNS waits 5 seconds for error responses before it connects again.
    var startDelayMax = Duration.seconds(15)

    /// How long the first messages of a run are held until it is certain.
    var holdDuration = Duration.seconds(2)

    /// The maximum number of messages that a connection holds.
    var heldCountMax = 64

    /// Whether a connection was opened after an error response, given the last one opened before it.
    var isLater: @Sendable (_ connection: UInt64, _ last: UInt64) -> Bool = { $0 > $1 }

    /// Whether a run may begin at a place, given the first place of the error response.
    var mayBegin: @Sendable (_ index: Int64, _ first: Int64) -> Bool = { $0 == $1 }

    /// Whether a message may be at a place, given the place that follows the last one.
    var mayFollow: @Sendable (_ index: Int64, _ next: Int64) -> Bool = { $0 == $1 }
}

/// How the messages of a connection compare with the expected resends; the numbers are for the log.
struct ResendCounts: Hashable, Sendable {
    /// Resends that were not delivered again.
    var resent = 0
    /// Those among them with another expiry.
    var resentWithNewExpiry = 0
    /// Messages that were delivered although they equal an expected resend in all but the expiry.
    var possible = 0

    var isEmpty: Bool { self == ResendCounts() }
}

/// What is known about the messages of one connection as resends.
struct ResendRun {
    /// A message that waits until the run is certain.
    struct Held: Hashable {
        var delivery: DeliveryNumber
        /// The number of the expected resend.
        var serial: Int
    }

    enum Phase {
        /// No message has matched.
        case idle
        /// All messages have matched so far.
        case candidate(Candidate)
        /// The messages are resends; a further one is in a place from this one on.
        case certain(response: Int64, next: Int64)
        /// A message did not match in time.
        case over
    }

    struct Candidate {
        var response: Int64
        /// The place of the next message.
        var next: Int64
        /// How many messages of the connection precede the first place: 1 if the provider resends also the message
        /// that the error response names.
        var precedingCount: Int64
        /// The distinct contents of the messages.
        var contents: Set<ResendKey> = []
        var held: [Held] = []
    }

    var phase = Phase.idle
    private var counts = ResendCounts()
    private var isReported = false

    /// Counts a message.
    mutating func count(_ change: (inout ResendCounts) -> Void) { change(&self.counts) }

    /// Ends a run that is not certain.
    ///
    /// Returns the messages to deliver.
    mutating func end() -> [DeliveryNumber] {
        guard case .candidate(let candidate) = self.phase else { return [] }
        self.phase = .over
        self.counts.possible += candidate.held.count
        return candidate.held.map(\.delivery)
    }

    /// Whether nothing is left to decide or to log.
    var isSpent: Bool {
        if case .candidate = self.phase { false } else { self.counts.isEmpty }
    }

    /// Returns the counts to log: at the first message after the resends, and at the end of the connection, so that a
    /// connection has at most two such log lines.
    mutating func report(isLast: Bool) -> ResendCounts? {
        guard !self.counts.isEmpty, isLast || !self.isReported else { return nil }
        if !isLast, case .candidate = self.phase { return nil }
        self.isReported = true
        defer { self.counts = ResendCounts() }
        return self.counts
    }
}
