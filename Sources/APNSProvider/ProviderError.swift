// SPDX-License-Identifier: Apache-2.0

import APNSSession
public import APNSWire
public import OpenSSLTLS

/// Why sending as a whole did not go to its end, over either protocol.
///
/// What became of each notification is an outcome, not an error.
public struct ProviderError: Error, Hashable, Sendable {
    /// What happened.
    public let kind: Kind

    /// The same in words for people, with what to do about it where that is known; no key and no token is in it.
    public let detail: String

    /// Makes an error.
    ///
    /// - Parameters:
    ///   - kind: what happened.
    ///   - detail: the same in words.
    public init(_ kind: Kind, _ detail: String) {
        self.kind = kind
        self.detail = detail
    }

    /// Why sending ended.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// A value of the configuration is out of its range.
        case configuration
        /// The TLS configuration, a certificate or a key cannot be used.
        case tls(TLSError)
        /// A connection is not permitted, and trying again would not help.
        case notPermitted(ConnectionFailure)
        /// The binary gateway closed the first connections without an answer: wrong environment or certificate?
        case closedWithoutAnswer
        /// The service cannot be reached, after as many tries as are allowed; this was the last failure.
        case unavailable(ConnectionFailure)
        /// The service answered this, as it would to every notification of the sender: its credentials or its topic are
        /// not permitted.
        case senderRefused(PushRejection)
        /// The service answered this, time after time, and nothing else.
        case serviceTrouble(PushRejection)
        /// Many tokens in a row were rejected as invalid, and none was accepted in between: tokens of the other
        /// environment?
        case tooManyInvalidTokens
        /// It was stopped, or its task cancelled, before everything was tried.
        case stopped
        /// `run` was called a second time.
        case alreadyRan
    }
}

extension ProviderError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String { self.detail }
}

extension ProviderError {
    /// A value of the configuration is out of its range; the words say which one, and what its range is.
    package static func configuration(_ detail: String) -> Self { Self(.configuration, detail) }

    /// The TLS configuration, a certificate or a key cannot be used.
    package static func tls(_ error: TLSError) -> Self { Self(.tls(error), "\(error)") }

    /// `run` was called a second time.
    package static let alreadyRan = Self(.alreadyRan, "It runs once; make a new one.")

    /// What it means for notifications that were not sent.
    package var reason: DeliveryOutcome.Reason {
        switch self.kind {
        case .tls(let error): .notPermitted(ConnectionFailure(error))
        case .notPermitted(let failure): .notPermitted(failure)
        case .unavailable(let failure): .unavailable(failure)
        case .senderRefused(let answer), .serviceTrouble(let answer): .serviceAnswer(answer)
        case .configuration, .closedWithoutAnswer, .tooManyInvalidTokens, .stopped, .alreadyRan: .stopped
        }
    }

    /// A client has ended before a sequence that it was given.
    ///
    /// - Parameter reason: why it takes nothing any more.
    @usableFromInline
    init(sequenceEndedBy reason: DeliveryOutcome.Reason) {
        let kind: Kind =
            switch reason {
            case .notPermitted(let failure): .notPermitted(failure)
            case .unavailable(let failure): .unavailable(failure)
            default: .stopped
            }
        self.init(kind, "Sending ended before the sequence did: \(reason). What has no record was not taken.")
    }
}

// MARK: - The binary protocol

extension ProviderError {
    /// Says why a session ended early; `nil` where it did not.
    ///
    /// - Parameters:
    ///   - ending: how it ended.
    ///   - lastFailure: the last failure of a connection, where there was one.
    init?(_ ending: ProviderEnding, lastFailure: ConnectionFailure?) {
        let failure = lastFailure ?? .closedByGateway
        let (kind, text): (Kind, String)
        switch ending {
        case .completed: return nil
        case .abandoned: (kind, text) = (.stopped, "Sending was stopped before everything was tried.")
        case .notPermitted:
            kind = .notPermitted(failure)
            text = "The connection is not permitted, and trying again would not help."
        case .refused:
            kind = .closedWithoutAnswer
            text =
                "The gateway closed the first connections without a word. Is the certificate for the other "
                + "environment, for another app, or revoked?"
        case .unavailable:
            kind = .unavailable(failure)
            text = "The gateway cannot be reached, or closes every connection without proving anything."
        case .tooManyInvalidTokens:
            kind = .tooManyInvalidTokens
            text =
                "Too many tokens in a row were rejected as invalid, and none was accepted. "
                + "Are they tokens of the other environment or of another app? Nothing was purged."
        }
        self.init(kind, text + (lastFailure.map { " The last failure: \($0)" } ?? ""))
    }
}
