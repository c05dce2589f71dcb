// SPDX-License-Identifier: Apache-2.0

public import APNSSession
import APNSTransport

/// Why sending as a whole did not go to its end.
///
/// What became of each notification is an outcome, not an error.
@nonexhaustive
public enum ProviderError: Error {
    /// The configuration cannot be used; the text says which field and why.
    case configuration(String)
    /// The session stopped before everything was tried; `underlying` is the last failure of a connection.
    case stopped(ProviderEnding, underlying: (any Error)?)
    /// Something was sent after the provider was told that nothing more comes, or before or after it ran.
    case notRunning
    /// The task was cancelled while it waited for room; that notification was not taken.
    case cancelled
    /// `run` was called a second time.
    case alreadyRan
    /// The proxy did not open the way; the text says what it answered.
    case proxy(String)
    /// The proxy wants a user name and a password, or others.
    case proxyAuthenticationRequired
    /// The gateway took nothing for so long that the connection was given up.
    case stalled(Duration)
    /// What the gateway sent is no error response.
    case notAGateway
}

extension ProviderError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .configuration(let text): text
        case .stopped(let ending, let underlying):
            ProviderError.describe(ending) + (underlying.map { " The last failure: \($0)" } ?? "")
        case .notRunning: "The provider does not run: call run() first, and send before finish()."
        case .cancelled: "The task was cancelled while it waited for room; that notification was not taken."
        case .alreadyRan: "A provider runs once; make a new one."
        case .proxy(let text): "The proxy did not open a way to the gateway: \(text)"
        case .proxyAuthenticationRequired:
            "The proxy wants a user name and a password, or others than those that it got."
        case .stalled(let duration): "The gateway took nothing for \(duration)."
        case .notAGateway: "The other end sent something that is no error response; is it a push gateway?"
        }
    }

    private static func describe(_ ending: ProviderEnding) -> String {
        switch ending {
        case .completed: "Everything was tried."
        case .abandoned: "Sending was stopped before everything was tried."
        case .notPermitted: "The connection is not permitted, and trying again would not help."
        case .refused:
            "The gateway closed the first connections without a word. Is the certificate for the other environment, "
                + "for another app, or revoked?"
        case .unavailable: "The gateway cannot be reached, or closes every connection without proving anything."
        case .tooManyInvalidTokens:
            "Too many tokens in a row were rejected as invalid, and none was accepted. "
                + "Are they tokens of the other environment or of another app? Nothing was purged."
        }
    }
}

extension ProviderError {
    init(_ error: ProxyError) {
        switch error {
        case .refused(let text): self = .proxy(text)
        case .authenticationRequired: self = .proxyAuthenticationRequired
        }
    }
}
