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
    /// Why not everything was tried; `nil` where everything was.
    package var failure: ProviderError?
    /// Whether something that it had taken had no outcome when it stopped.
    package var hasLeftSomething: Bool

    /// Makes an ending.
    ///
    /// - Parameters:
    ///   - ending: why it ended.
    ///   - failure: why not everything was tried.
    ///   - hasLeftSomething: whether something had no outcome.
    package init(ending: ProviderEnding, failure: ProviderError?, hasLeftSomething: Bool) {
        self.ending = ending
        self.failure = failure
        self.hasLeftSomething = hasLeftSomething
    }
}
