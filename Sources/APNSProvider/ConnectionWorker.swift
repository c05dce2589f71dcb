// SPDX-License-Identifier: Apache-2.0

package import APNSSession

/// Keeps the connections that one event loop has to a service, and moves notifications over them.
///
/// Not thread-safe: made and used on its event loop.
package protocol ConnectionWorker: AnyObject {
    /// Begins, and connects where there is something to send.
    func begin()

    /// There may be something to send, or nothing more may come.
    func wake()

    /// Proves what was taken, as soon as that can be done.
    func checkpoint()

    /// Stops at once: what may have been processed is indeterminate, the rest unsent.
    func abandon()
}

/// How one worker ended.
package struct WorkerEnding: Sendable {
    /// Why it ended.
    package var ending: ProviderEnding
    /// The last failure of a connection, or why sending as a whole was of no use.
    package var failure: (any Error)?
    /// Whether something that it had taken had no outcome when it stopped.
    package var hasLeftSomething: Bool

    /// Makes an ending.
    ///
    /// - Parameters:
    ///   - ending: why it ended.
    ///   - failure: the last failure.
    ///   - hasLeftSomething: whether something had no outcome.
    package init(ending: ProviderEnding, failure: (any Error)?, hasLeftSomething: Bool) {
        self.ending = ending
        self.failure = failure
        self.hasLeftSomething = hasLeftSomething
    }
}
