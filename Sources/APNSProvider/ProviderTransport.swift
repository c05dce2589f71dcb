// SPDX-License-Identifier: Apache-2.0

package import NIOCore
package import APNSSession

/// A transport for notifications to a service, over one protocol.
///
/// A sender connects a source with a transport, which has the connections. The transport's workers request
/// notifications from the source on their event loops, so that none takes more than its connection can send.
package protocol ProviderTransport: Sendable {
    /// The metrics of the transport.
    var observer: DeliveryObserver { get }

    /// The number of workers of a run.
    var workerCount: Int { get }

    /// Starts a run.
    ///
    /// Returns a closure that makes each worker of the run, on the worker's event loop.
    func begin(_ source: any NotificationSource) -> WorkerFactory

    /// Why a run ended early.
    ///
    /// Returns `nil` if everything was attempted.
    func failure(of endings: [WorkerEnding]) -> ProviderError?
}

/// Creates a worker; called on the worker's event loop.
package typealias WorkerFactory =
    @Sendable (
        _ eventLoop: any EventLoop, _ finished: EventLoopPromise<WorkerEnding>
    ) -> any ConnectionWorker

/// Manages the connections of one event loop to a service, and transfers notifications over them.
///
/// Not thread-safe: created and used on its event loop.
package protocol ConnectionWorker: AnyObject {
    /// Starts, and connects if there is something to send.
    func begin()

    /// Checks whether there is something to send, or submissions have ended.
    func wake()

    /// Verifies what was sent as soon as possible.
    func checkpoint()

    /// Stops immediately: what may have been processed is indeterminate, the rest unsent.
    func abandon()
}

/// How one worker ended.
package struct WorkerEnding: Sendable {
    /// Why it ended.
    package var ending: ProviderEnding
    /// Why not everything was attempted; `nil` if everything was.
    package var failure: ProviderError?
    /// Whether unsettled notifications remained when it stopped.
    package var hasUnsettled: Bool
    /// Whether the service answered, or closed too few connections to tell; `nil` if nothing was settled.
    package var isAnswered: Bool?

    /// Creates an ending.
    package init(
        ending: ProviderEnding,
        failure: ProviderError?,
        hasUnsettled: Bool,
        isAnswered: Bool? = nil
    ) {
        self.ending = ending
        self.failure = failure
        self.hasUnsettled = hasUnsettled
        self.isAnswered = isAnswered
    }
}
