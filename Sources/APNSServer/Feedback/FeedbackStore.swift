// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Where a feedback listener has its tuples from: a list per topic and environment.
public protocol FeedbackStore: Sendable {
    /// Opens the list of a provider that has connected.
    ///
    /// Called on event loops.
    ///
    /// - Parameter provider: who is connected; its certificate was verified.
    /// - Returns: the list, or `nil` to refuse the provider.
    func open(_ provider: ProviderConnection) -> (any FeedbackList)?
}

/// What one connection is given of a list.
///
/// Used on the event loop of the connection.
public protocol FeedbackList: AnyObject {
    /// Takes the next tuples.
    ///
    /// - Parameter countMax: how many at most.
    /// - Returns: the tuples; none at the end of the list.
    func next(_ countMax: Int) -> [FeedbackTuple]

    /// All that was taken has arrived: it may leave the list.
    func acknowledge()
}
