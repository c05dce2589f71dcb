// SPDX-License-Identifier: Apache-2.0

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
        package var at: Duration

        package init(
            content: Int,
            command: Command = .enhanced,
            identifier: UInt32?,
            expiry: UInt32? = nil,
            priority: UInt8? = nil,
            tokenByteCount: Int = 32,
            payloadByteCount: Int = 100,
            at: Duration
        ) {
            self.content = content
            self.command = command
            self.identifier = identifier
            self.expiry = expiry
            self.priority = priority
            self.tokenByteCount = tokenByteCount
            self.payloadByteCount = payloadByteCount
            self.at = at
        }
    }

    /// The number of the connection, from 1.
    package var number: UInt64
    package var identity: ProviderIdentity?
    package var tlsVersion: TLSVersion?
    package var cipherName: String?
    /// Why the gateway would not admit the certificate; `nil` if it would.
    package var refusal: String?
    package var trial = ProviderTrial.acceptance
    package var messages: [Message] = []
    /// How many notifications were not recorded, because there were too many.
    package var omittedCount = 0
    /// What the listener's checks rejected, such as "payload too long".
    package var invalid: [String] = []
    /// When the trial took effect.
    package var effectAt: Duration?
    package var closedAt: Duration?

    package init(number: UInt64) { self.number = number }
}
