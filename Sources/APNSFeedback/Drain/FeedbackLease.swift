// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import NIOCore

/// The right of one host in a fleet to read a list, which ends by itself.
///
/// It covers the opening of the connection only: what was read is recorded even if the lease has ended, because the
/// service has forgotten it.
package struct FeedbackLease: Sendable {
    /// Extends the lease by a duration, unless another host has it.
    ///
    /// - Throws: an error if another host has it.
    package var renew: @Sendable (_ duration: Duration) throws -> Void
    /// Ends the lease.
    package var release: @Sendable () throws -> Void

    /// Creates a lease.
    package init(
        renew: @escaping @Sendable (_ duration: Duration) throws -> Void,
        release: @escaping @Sendable () throws -> Void
    ) {
        self.renew = renew
        self.release = release
    }

    /// Acquires the lease of the list of a certificate at an address; it may block.
    ///
    /// - Throws: ``FeedbackError/heldElsewhere(_:host:)`` if another host has it.
    package typealias Acquisition =
        @Sendable (_ fingerprint: String, _ endpoint: Endpoint, _ duration: Duration) throws -> FeedbackLease
}

/// Until when a connection may be opened.
///
/// The host compares its own clock, which counts from before the lease was renewed, so it stops before the lease ends.
struct OpeningFence: Sendable {
    private let endpoint: Endpoint
    private let end: ContinuousClock.Instant

    init(_ endpoint: Endpoint, end: ContinuousClock.Instant) {
        self.endpoint = endpoint
        self.end = end
    }

    /// - Throws: ``FeedbackError/heldElsewhere(_:host:)`` if another host may have the lease by now.
    func check() throws(FeedbackError) {
        guard ContinuousClock.now < self.end else { throw .heldElsewhere(self.endpoint, host: nil) }
    }
}
