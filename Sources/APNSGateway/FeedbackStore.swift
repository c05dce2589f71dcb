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
    /// How the list is delivered; by default as the service did.
    var manner: FeedbackCloseStrategy { get }

    /// Takes the next tuples.
    ///
    /// - Parameter countMax: how many at most.
    /// - Returns: the tuples; none at the end of the list.
    func next(_ countMax: Int) -> [FeedbackTuple]

    /// All that was taken has arrived: it may leave the list.
    func acknowledge()
}

extension FeedbackList {
    /// As the service did.
    public var manner: FeedbackCloseStrategy { FeedbackCloseStrategy() }
}

/// How a list is delivered.
///
/// Anything but the default is what a real service does on a bad day; a simulator uses it to show that to providers.
public struct FeedbackCloseStrategy: Hashable, Sendable, Codable {
    /// How a delivery ends that is cut.
    public enum Cut: String, Hashable, Sendable, Codable, CaseIterable {
        /// close_notify, as if that were all.
        case orderly
        /// An end of stream without close_notify.
        case abrupt
        /// A reset.
        case reset
    }

    /// So many bytes go at a time; `nil`, the default, for as many as the connection takes.
    public var dripByteCount: Int?

    /// The pause between two drips in milliseconds; by default 10.
    public var dripMilliseconds = 10

    /// Behind so many bytes the delivery is cut, be it inside a tuple; `nil`, the default, for never.
    public var cutByteCount: Int?

    /// How it is cut; by default orderly.
    public var cut = Cut.orderly

    /// Makes the manner of the service.
    public init() {}
}
