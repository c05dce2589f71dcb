// SPDX-License-Identifier: Apache-2.0

/// Names a connection of one provider session; never used twice in a session.
public struct ConnectionNumber: RawRepresentable, Hashable, Comparable, Sendable {
    /// 1 for the first.
    public var rawValue: UInt64

    /// Takes a number.
    ///
    /// - Parameter rawValue: 1 for the first.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Whether the one was opened before the other.
    public static func < (left: ConnectionNumber, right: ConnectionNumber) -> Bool { left.rawValue < right.rawValue }
}

/// What the owner of a provider session has to do next.
@frozen
public enum ProviderStep: Equatable, Sendable {
    /// Open a connection, and say how that ended.
    case connect(ConnectionNumber)

    /// Write notifications to the connection, in order: those already taken, then new ones, as far as they go.
    ///
    /// `numbers` are those that may be written now; the first has `firstIdentifier` on the wire, each further one the
    /// next. Say how many were with ``ProviderSession/wrote(_:now:)``, or that there are none with
    /// ``ProviderSession/supply(_:)``.
    case write(ConnectionNumber, numbers: Range<UInt64>, firstIdentifier: UInt32)

    /// Write a probe with this identifier to the connection, and nothing after it.
    case probe(ConnectionNumber, identifier: UInt32)

    /// Close the connection; nothing that it still says matters.
    case close(ConnectionNumber)

    /// Do nothing until an event, or until this time where one is named.
    case wait(until: Duration?)

    /// All is settled and every connection is closed: report how it ended and forget the session.
    case finish(ProviderEnding)
}

/// How a provider session ended.
@frozen
public enum ProviderEnding: Hashable, Sendable {
    /// Everything was tried and is settled.
    case completed
    /// It was told to stop at once.
    case abandoned
    /// A connection failed in a way that another try cannot mend, such as an expired certificate.
    case notPermitted
    /// The first connections were all closed without a word: wrong environment or certificate?
    case refused
    /// Too many connections in a row failed or proved nothing.
    case unavailable
    /// Too many tokens in a row were rejected as invalid, with none accepted: tokens of the other environment?
    case tooManyInvalidTokens
}

/// What the owner of a provider session knows of notifications to come.
@frozen
public enum ProviderSupply: Hashable, Sendable {
    /// There may be some: ask.
    case available
    /// There are none now; more may come.
    case waiting
    /// There will be no more.
    case ended
}
