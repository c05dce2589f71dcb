// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The source of a feedback listener's tuples: a list per topic and environment.
public protocol FeedbackStore: Sendable {
    /// Opens the list of a provider that has connected.
    ///
    /// Called on event loops.
    ///
    /// - Parameter provider: the connection, whose certificate was verified.
    /// - Returns: the list, or `nil` to refuse the provider.
    func open(_ provider: ProviderConnection) -> (any FeedbackList)?
}

/// The list of one connection.
///
/// It is confined to the event loop of the connection.
public protocol FeedbackList: AnyObject {
    /// Reads the next tuples.
    ///
    /// - Parameter countMax: the maximum number of tuples.
    /// - Returns: the tuples; none at the end of the list.
    func next(_ countMax: Int) -> [FeedbackTuple]

    /// Called when all tuples have arrived, so that they may leave the list.
    func acknowledge()
}
