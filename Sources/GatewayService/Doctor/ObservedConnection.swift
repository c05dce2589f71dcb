// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
package import APNSTransport
package import APNSWire
package import OpenSSLTLS

/// A connection of a provider under observation.
///
/// Times count from the start of the observation.
package struct ObservedConnection: Sendable {
    /// A notification without its content.
    package struct Message: Hashable, Sendable {
        /// Token and payload, by which a notification is recognized when it comes again; equal for equal ones.
        package var content: Int
        package var command: Command
        package var identifier: UInt32?
        package var expiry: UInt32?
        package var priority: UInt8?
        package var tokenByteCount: Int
        package var payloadByteCount: Int
        /// Why the payload is not a JSON object; `nil` if it is one.
        package var payloadProblem: PayloadProblem.Kind?
        package var at: Duration

        package init(
            content: Int,
            command: Command = .enhanced,
            identifier: UInt32?,
            expiry: UInt32? = nil,
            priority: UInt8? = nil,
            tokenByteCount: Int = 32,
            payloadByteCount: Int = 100,
            payloadProblem: PayloadProblem.Kind? = nil,
            at: Duration
        ) {
            self.content = content
            self.command = command
            self.identifier = identifier
            self.expiry = expiry
            self.priority = priority
            self.tokenByteCount = tokenByteCount
            self.payloadByteCount = payloadByteCount
            self.payloadProblem = payloadProblem
            self.at = at
        }

        /// Whether the expiry is before 2001: some providers write a duration, or another value, in its place.
        var hasExpired: Bool { self.expiry.map { $0 > 0 && $0 < 1_000_000_000 } ?? false }
    }

    /// The number of the connection, from 1.
    package var number: UInt64
    package var identity: ProviderIdentity?
    package var tlsVersion: TLSVersion?
    package var cipherName: String?
    /// The host name that the provider requested (SNI); `nil` for none.
    package var serverName: String?
    /// How many certificates the provider sent besides its own.
    package var intermediateCount = 0
    /// Why the gateway would not admit the certificate; `nil` if it would.
    package var refusal: String?
    package var trial = ProviderTrial.acceptance
    /// Whether the trial takes effect late.
    package var isLate = false
    package var messages: [Message] = []
    /// How many notifications were not recorded, because there were too many.
    package var omittedCount = 0
    /// What the listener's checks rejected, such as "payload too long".
    package var invalid: [String] = []
    package var openedAt = Duration.zero
    /// When the trial took effect; for ``ProviderTrial/acceptance``, when a connection that was still open was closed.
    package var effectAt: Duration?
    /// When the provider closed the connection, or its side of it, or when the trial ended it.
    package var closedAt: Duration?

    package init(number: UInt64) { self.number = number }

    /// Whether the provider had closed the connection before the trial took effect.
    var isMissed: Bool {
        guard let effectAt = self.effectAt, let closedAt = self.closedAt else { return false }
        return closedAt < effectAt
    }

    /// Whether the provider closed the connection on its own.
    var wasLeft: Bool { self.closedAt != nil && (self.effectAt == nil || self.isMissed) }
}
