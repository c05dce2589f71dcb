// SPDX-License-Identifier: Apache-2.0

/// What a provider under observation meets on one connection.
package enum ProviderTrial: String, CaseIterable, Sendable {
    /// Everything is accepted, and a connection that stays open is closed after a while.
    case acceptance
    /// The first notification is rejected with status 8 (invalid token), after others have arrived.
    case rejection
    /// The first notification is accepted, and the service shuts down after it (status 10).
    case shutdown
    /// The connection is reset without an error response.
    case reset
    /// Nothing is answered, and the connection ends after a while.
    case silence

    /// How many connections each trial takes.
    package static let connectionCount = 4

    /// The trial of a connection, by the number of earlier ones that sent a notification.
    ///
    /// The trials alternate, so that a provider that connects seldom has met all of them soon.
    package static func at(_ index: Int) -> ProviderTrial { Self.allCases[index % Self.allCases.count] }

    /// Whether a trial takes effect late, by the same number: every other rejection does, since some providers wait
    /// briefly for an answer before they send the next notification.
    package static func isLate(_ index: Int) -> Bool {
        Self.at(index) == .rejection && index / Self.allCases.count % 2 == 1
    }

    /// How many connections with notifications complete every trial: the last one shows the reaction to the one before.
    package static var totalCount: Int { Self.allCases.count * Self.connectionCount + 1 }

    /// What the provider meets, in the report.
    package var name: String {
        switch self {
        case .acceptance: "a close"
        case .shutdown: "status 10"
        case .rejection, .reset, .silence: self.rawValue
        }
    }

    /// What is done to the provider, for people.
    package var text: String {
        switch self {
        case .acceptance: "all accepted"
        case .rejection: "its first notification rejected"
        case .shutdown: "status 10 after its first notification"
        case .reset: "reset"
        case .silence: "no answer"
        }
    }
}
