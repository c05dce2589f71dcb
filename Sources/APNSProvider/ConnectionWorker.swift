// SPDX-License-Identifier: Apache-2.0

package import APNSSession

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
    package var hasLeftSomething: Bool
    /// Whether the service answered, or closed too few connections to tell; `nil` if nothing was settled.
    package var isAnswered: Bool?

    /// Creates an ending.
    package init(
        ending: ProviderEnding,
        failure: ProviderError?,
        hasLeftSomething: Bool,
        isAnswered: Bool? = nil
    ) {
        self.ending = ending
        self.failure = failure
        self.hasLeftSomething = hasLeftSomething
        self.isAnswered = isAnswered
    }
}
