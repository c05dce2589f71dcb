// SPDX-License-Identifier: Apache-2.0

/// The number of a connection; unique within one provider session.
public struct ConnectionNumber: RawRepresentable, Hashable, Comparable, Sendable {
    /// 1 for the first.
    public var rawValue: UInt64

    /// Creates a number.
    ///
    /// - Parameter rawValue: 1 for the first.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Whether one connection was opened before the other.
    public static func < (left: ConnectionNumber, right: ConnectionNumber) -> Bool { left.rawValue < right.rawValue }
}

/// What the caller of a provider session must do next.
@frozen
public enum ProviderStep: Equatable, Sendable {
    /// Open a connection, and report the result.
    case connect(ConnectionNumber)

    /// Write notifications to the connection, in order: those already taken, then new ones if available.
    ///
    /// `numbers` may be written now; the first has `firstIdentifier` on the wire, and the following count up. Report
    /// their number with ``ProviderSession/wrote(_:now:)``, or that there are none with ``ProviderSession/supply(_:)``.
    case write(ConnectionNumber, numbers: Range<UInt64>, firstIdentifier: UInt32)

    /// Write a probe with this identifier to the connection, and nothing after it.
    case probe(ConnectionNumber, identifier: UInt32)

    /// Close the connection; later events of it are ignored.
    case close(ConnectionNumber)

    /// Do nothing until an event, or until this time if there is one.
    case wait(until: Duration?)

    /// Everything is settled and every connection is closed: report the ending and discard the session.
    case finish(ProviderEnding)
}

/// How a provider session ended.
@frozen
public enum ProviderEnding: Hashable, Sendable {
    /// Everything was attempted and is settled.
    case completed
    /// The caller stopped it.
    case abandoned
    /// A connection failed in a way that another attempt would not fix, such as an expired certificate.
    case notPermitted
    /// The first connections were all closed without an answer, possibly because of a wrong environment or certificate.
    case refused
    /// Too many consecutive connections failed or verified nothing.
    case unavailable
    /// Too many consecutive tokens were rejected as invalid, possibly because they are of the other environment.
    case tooManyInvalidTokens
}

/// Whether more notifications are available.
@frozen
public enum ProviderSupply: Hashable, Sendable {
    /// There may be some: request them.
    case available
    /// There are none now; more may come.
    case waiting
    /// There will be no more.
    case ended
}
