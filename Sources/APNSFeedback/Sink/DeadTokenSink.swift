// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Where a drain hands the dead tokens that it reads: a database, or another service.
///
/// A drain hands over one page after the other. A page leaves the spool when ``take(_:)`` returns; from then on the
/// sink alone has it. Where ``take(_:)`` throws, the drain ends with that error, and the page stays in the spool.
///
/// What was not taken is handed over again: by the next drain of the same topic and environment, also where the process
/// ended inside ``take(_:)`` or before the spool had noted that it returned. So a sink is given each token at least
/// once, and must be able to take one again.
public protocol DeadTokenSink: Sendable {
    /// The most tokens of a page; the default is 10,000.
    var pageTokenCountMax: Int { get }

    /// Takes a page, and returns when its tokens are durable.
    ///
    /// It is called also when the task is cancelled, since what was read from the service is nowhere else.
    ///
    /// - Parameter page: dead tokens of one topic and environment; at least one.
    /// - Throws: that the page cannot be taken.
    func take(_ page: DeadTokenPage) async throws

    /// Learns that a list was read to its end, be it that it had no tokens; the default does nothing.
    ///
    /// - Parameter scope: whose list.
    /// - Throws: that this cannot be noted, which ends the drain.
    func finish(_ scope: TokenScope) async throws
}

extension DeadTokenSink {
    /// 10,000.
    public var pageTokenCountMax: Int { 10_000 }

    /// Does nothing.
    public func finish(_ scope: TokenScope) async throws {}
}
