// SPDX-License-Identifier: Apache-2.0

import APNSSession
public import APNSWire
public import OpenSSLTLS

/// Why sending as a whole did not complete, over either protocol.
///
/// The outcome of a notification is not an error.
public struct ProviderError: Error, Hashable, Sendable {
    /// What happened.
    public let kind: Kind

    /// What failed and what to do about it, in one line; it contains no key and no token.
    public let detail: String

    /// The `apns-id` of the request whose response ended sending; `nil` if none did, as over the binary protocol.
    public let apnsID: PushIdentifier?

    /// The `apns-unique-id` of that response, with which a console of the service finds it; `nil` if it has none.
    public let apnsUniqueID: PushIdentifier?

    /// Creates an error.
    ///
    /// - Parameters:
    ///   - kind: what happened.
    ///   - detail: what failed and what to do.
    ///   - apnsID: the `apns-id` of the request whose response ended sending.
    ///   - apnsUniqueID: the `apns-unique-id` of the response.
    public init(
        _ kind: Kind,
        _ detail: String,
        apnsID: PushIdentifier? = nil,
        apnsUniqueID: PushIdentifier? = nil
    ) {
        self.kind = kind
        self.detail = detail
        self.apnsID = apnsID
        self.apnsUniqueID = apnsUniqueID
    }

    /// Why sending ended.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// A value of the configuration is out of range.
        case configuration
        /// The TLS configuration, a certificate or a key cannot be used.
        case tls(TLSError)
        /// A connection is not permitted, and another attempt would not help.
        case notPermitted(ConnectionFailure)
        /// The binary gateway closed the first connections without a response; environment or certificate may be wrong.
        case closedWithoutAnswer
        /// The service cannot be reached, after the maximum number of attempts; this was the last failure.
        case unavailable(ConnectionFailure)
        /// The service rejects every notification of this sender with this response: its credentials or its topic are
        /// not permitted.
        case senderRefused(PushRejection)
        /// The service repeatedly sent this response, and no other.
        case serviceTrouble(PushRejection)
        /// Many tokens in a row were rejected as invalid, and none was accepted in between; they may belong to the
        /// other environment.
        case tooManyInvalidTokens
        /// It was stopped, or its task was cancelled, before everything was tried.
        case stopped
        /// `run` was called twice, or there is a second loop over the same ``DeliveryRecords``.
        case alreadyRan
    }
}

extension ProviderError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String { self.detail }
}

extension ProviderError {
    /// A value of the configuration is out of range; the text names the value and its range.
    package static func configuration(_ detail: String) -> Self { Self(.configuration, detail) }

    /// Checks that values of the configuration are in their ranges.
    package static func check(_ values: [(String, Int, ClosedRange<Int>)]) throws(ProviderError) {
        for (name, value, range) in values where !range.contains(value) {
            throw .configuration("invalid \(name) \(value), expected \(range.lowerBound) to \(range.upperBound)")
        }
    }

    /// The TLS configuration, a certificate or a key cannot be used.
    package static func tls(_ error: TLSError, _ names: TLSErrorNames = TLSErrorNames()) -> Self {
        Self(.tls(error), error.text(names))
    }

    /// `run` was called twice.
    package static let alreadyRan = Self(.alreadyRan, "run was called a second time; make a new sender")

    /// The reason for notifications that were not sent.
    package var reason: DeliveryOutcome.Reason {
        switch self.kind {
        case .tls(let error): .notPermitted(ConnectionFailure(error))
        case .notPermitted(let failure): .notPermitted(failure)
        case .unavailable(let failure): .unavailable(failure)
        case .senderRefused(let answer), .serviceTrouble(let answer): .serviceResponse(answer)
        case .configuration, .closedWithoutAnswer, .tooManyInvalidTokens, .stopped, .alreadyRan: .stopped
        }
    }

    /// A client ended before a sequence that it was sending.
    @usableFromInline
    init(sequenceEndedBy reason: DeliveryOutcome.Reason) {
        let kind: Kind =
            switch reason {
            case .notPermitted(let failure): .notPermitted(failure)
            case .unavailable(let failure): .unavailable(failure)
            default: .stopped
            }
        self.init(kind, "sending ended before the sequence did: \(reason); what has no record was not sent")
    }
}

// MARK: - How sending ends

extension ProviderError {
    /// A connection is not permitted, and another attempt would not help.
    package static func notPermitted(_ failure: ConnectionFailure) -> Self {
        Self(.notPermitted(failure), "\(failure)")
    }

    /// The service cannot be reached; this was the last failure.
    package static func unavailable(_ failure: ConnectionFailure) -> Self {
        Self(.unavailable(failure), "\(failure)")
    }

    /// Describes why a session of the binary protocol ended early; `nil` if it did not.
    init?(_ ending: ProviderEnding, lastFailure: ConnectionFailure?, _ names: TLSErrorNames) {
        let failure = lastFailure ?? .closed(names)
        switch ending {
        case .completed: return nil
        case .abandoned: self.init(.stopped, "stopped before everything was sent")
        case .notPermitted: self = .notPermitted(failure)
        case .refused:
            self.init(
                .closedWithoutAnswer,
                "\(names.remote) closed the first connections without an answer; check that \(names.clientCertificate) "
                    + "is for its app and environment and is not revoked, and that the port is for sending, "
                    + "not feedback"
            )
        case .unavailable: self = .unavailable(failure)
        case .tooManyInvalidTokens:
            self.init(
                .tooManyInvalidTokens,
                "too many device tokens in a row were rejected (status 8: invalid token), and none was accepted; are "
                    + "they for the other environment or another app? The purge list is unchanged"
            )
        }
    }

    /// The HTTP/2 service rejects every notification of this sender with this response.
    package static func senderRefused(
        _ answer: PushRejection,
        _ identifier: PushIdentifier? = nil,
        _ uniqueIdentifier: PushIdentifier? = nil
    ) -> Self {
        let text = "the service refuses this sender: \(DeliveryOutcome.Reason.serviceResponse(answer))"
        return Self(.senderRefused(answer), text, apnsID: identifier, apnsUniqueID: uniqueIdentifier)
    }

    /// The HTTP/2 service repeatedly sent this response, and no other.
    package static func serviceTrouble(
        _ answer: PushRejection,
        _ identifier: PushIdentifier? = nil,
        _ uniqueIdentifier: PushIdentifier? = nil
    ) -> Self {
        let text =
            "the service answers every request with \(DeliveryOutcome.Reason.serviceResponse(answer)); try again later"
        return Self(.serviceTrouble(answer), text, apnsID: identifier, apnsUniqueID: uniqueIdentifier)
    }

    /// Over HTTP/2, this number of tokens in a row was rejected as invalid, and none was accepted in between.
    package static func tooManyInvalidTokens(count: Int) -> Self {
        Self(
            .tooManyInvalidTokens,
            "\(count) device tokens in a row were rejected as invalid, and none was accepted; are they for the other "
                + "environment or another app?"
        )
    }
}
