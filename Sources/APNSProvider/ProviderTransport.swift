// SPDX-License-Identifier: Apache-2.0

package import NIOCore

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
