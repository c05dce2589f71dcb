// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// Carries notifications to a service, over one protocol.
///
/// A sender asks a source for notifications and takes their outcomes; a transport has the connections. A transport's
/// workers take from the source by themselves, on their event loops, so that none takes more than its connection can
/// carry.
package protocol ProviderTransport: Sendable {
    /// Counts what is sent.
    var observer: DeliveryObserver { get }

    /// How many workers a run has.
    var workerCount: Int { get }

    /// Begins a run.
    ///
    /// - Parameter source: gives the notifications of the run, and takes their outcomes.
    /// - Returns: makes each worker of the run, on the event loop of the worker.
    func begin(_ source: any NotificationSource) -> WorkerFactory

    /// Why a run did not go to its end.
    ///
    /// - Parameter endings: how each worker ended.
    /// - Returns: `nil` where everything was tried.
    func failure(of endings: [WorkerEnding]) -> ProviderError?
}

/// Makes a worker; called on its event loop.
package typealias WorkerFactory =
    @Sendable (
        _ eventLoop: any EventLoop, _ finished: EventLoopPromise<WorkerEnding>
    ) -> any ConnectionWorker
