// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// A backend whose decisions about providers take time.
///
/// The provider is not read before the decision, and what has arrived of it waits.
package protocol DeferredAdmission: DeliveryBackend {
    /// Decides whether to admit a provider, whose certificate was verified; called on the event loop of the connection.
    ///
    /// Returns, on the same event loop and within bounded time, a closure that is called there if the connection is
    /// still open.
    func decide(
        about provider: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<@Sendable () -> Admission>
}

/// A feedback store whose decisions about providers take time.
package protocol DeferredFeedback: FeedbackStore {
    /// Decides whether to open a list; as ``DeferredAdmission/decide(about:until:)``.
    func decideList(
        of provider: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<@Sendable () -> (any FeedbackList)?>
}
