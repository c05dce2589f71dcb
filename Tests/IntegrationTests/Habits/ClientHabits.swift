// SPDX-License-Identifier: Apache-2.0

import TestSupport

/// The habits of a client that was written for Apple's binary gateway.
struct ClientHabits: Sendable {
    /// The identifiers on each connection.
    enum Numbering: Sendable {
        /// Counts from a number, beyond the largest one to 0.
        case counting(from: UInt32)
        /// The same identifiers again after this number of notifications; with 1, all have the same one.
        case repeating(every: UInt32)
        /// Counts from 1, but writes the bytes in the order of its machine.
        case littleEndian

        func identifier(of place: Int) -> UInt32 {
            let place = UInt32(truncatingIfNeeded: place)
            return switch self {
            case .counting(let first): first &+ place
            case .repeating(let count): place % count
            case .littleEndian: (place + 1).byteSwapped
            }
        }
    }

    /// When it reads error responses.
    enum Reading: Sendable {
        case never
        case afterEachWrite
        /// When a write failed, and after it has closed its side.
        case afterFailedWrite
    }

    /// What it does about a connection that ended without an error response.
    enum AfterClose: Sendable {
        /// Sends the notification again whose write failed.
        case resendsFailed
        /// Also sends everything again of which it has no proof.
        case resendsAll
    }

    var name: String
    var numbering = Numbering.counting(from: 1)
    /// Every notification of this number is in command 0; 0 for none.
    var simpleEvery = 0
    var usesItems = false
    /// Whether each write computes the expiry from the current time.
    var renewsExpiry = false
    var reading = Reading.afterEachWrite
    /// The number of notifications that it keeps for resending.
    var keptCount = Int.max
    /// Whether it sends everything again that it keeps if it does not know an identifier; otherwise nothing.
    var resendsAllForUnknown = true
    var afterClose = AfterClose.resendsAll
    /// Whether it also sends the notification again that an error response with status 1 (processing error) names.
    var retriesProcessingError = false
    /// The number of notifications after which it closes its side of a connection; `nil` if it keeps it open.
    var halfClosesAfter: Int?
    var connectionCount = 1
    /// The pause before each write, in milliseconds.
    var pause: Int32 = 0
    /// The pause before it connects again, in milliseconds.
    var reconnectPause: Int32 = 0
    /// Whether it writes only half, and the rest after the fault.
    var isIdleDuringFault = false
    /// The number of notifications.
    var count = Self.usualCount

    /// The number of notifications of most clients.
    static let usualCount = TestEffort.count(40, long: 120)

    /// Whether it acts on each error response and each close as the protocol intends, and so loses nothing but what an
    /// error response names; with ``retriesProcessingError``, only what the service rejects.
    var isConforming: Bool {
        self.reading != .never && self.keptCount == .max && self.resendsAllForUnknown && self.afterClose == .resendsAll
    }

    /// The configuration for it.
    var rejections: String { self.reading == .never ? "ignore" : "report" }

    /// The number of those that write until the fault is over.
    private static let longCount = TestEffort.count(140, long: 400)

    /// The number of notifications that a client keeps that does not keep all, and before identifiers wrap.
    private static let someCount = TestEffort.count(30, long: 50)

    static let all = [
        Self(name: "from-1", usesItems: true),
        Self(name: "from-0", numbering: .counting(from: 0)),
        Self(name: "retries-status-1", numbering: .counting(from: 0), retriesProcessingError: true),
        Self(name: "wraps", numbering: .counting(from: UInt32.max - UInt32(someCount) + 1)),
        Self(name: "little-endian", numbering: .littleEndian),
        Self(name: "simple-among", simpleEvery: 3),
        Self(name: "constant", numbering: .repeating(every: 1)),
        Self(name: "repeating", numbering: .repeating(every: 20)),
        Self(name: "renews-expiry", numbering: .counting(from: 0), renewsExpiry: true, reconnectPause: 1100),
        Self(name: "reads-on-failure", reading: .afterFailedWrite, halfClosesAfter: .max, pause: 2),
        Self(name: "half-closes", halfClosesAfter: 15),
        Self(name: "half-closes-from-0", numbering: .counting(from: 0), halfClosesAfter: 15),
        Self(name: "three-connections", connectionCount: 3),
        Self(name: "keeps-some", numbering: .counting(from: 0), keptCount: someCount, afterClose: .resendsFailed),
        Self(name: "drops-unknown", keptCount: someCount, resendsAllForUnknown: false, afterClose: .resendsFailed),
        Self(name: "idle", numbering: .counting(from: 0), isIdleDuringFault: true),
        Self(name: "never-reads", reading: .never, afterClose: .resendsFailed, count: longCount),
        Self(
            name: "never-reads-from-0",
            numbering: .counting(from: 0),
            simpleEvery: 4,
            reading: .never,
            afterClose: .resendsFailed
        ),
        Self(name: "never-reads-paced", reading: .never, afterClose: .resendsFailed, pause: 4, count: longCount),
        Self(name: "never-reads-half-closes", reading: .never, afterClose: .resendsFailed, halfClosesAfter: 15),
        Self(name: "never-reads-idle", reading: .never, afterClose: .resendsFailed, pause: 2, isIdleDuringFault: true),
    ]
}
