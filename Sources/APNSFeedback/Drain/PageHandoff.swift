// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Hands pages from a drain over to the task that called it, one at a time.
///
/// Waiting does not end when a task is cancelled, because what was read is still delivered then.
final class PageHandoff: Sendable {
    /// A page that waits for its receiver.
    struct Offer: Sendable {
        let page: DeadTokenPage
        private let answer: CheckedContinuation<(any Error)?, Never>

        fileprivate init(_ page: DeadTokenPage, _ answer: CheckedContinuation<(any Error)?, Never>) {
            self.page = page
            self.answer = answer
        }

        /// Tells the drain whether the page was delivered; call it exactly once.
        func complete(with failure: (any Error)?) { self.answer.resume(returning: failure) }
    }

    private enum State {
        case idle
        /// The receiver waits for an offer.
        case awaited(CheckedContinuation<Offer?, Never>)
        case offered(Offer)
        case ended
    }

    private let state = NIOLockedValueBox(State.idle)

    /// Offers a page, and waits until the receiver is done with it.
    ///
    /// - Throws: the error of the receiver.
    func deliver(_ page: DeadTokenPage) async throws {
        let failure = await withCheckedContinuation { (answer: CheckedContinuation<(any Error)?, Never>) in
            let offer = Offer(page, answer)
            let receiver = self.state.withLockedValue { state -> CheckedContinuation<Offer?, Never>? in
                if case .awaited(let receiver) = state {
                    state = .idle
                    return receiver
                }
                state = .offered(offer)
                return nil
            }
            receiver?.resume(returning: offer)
        }
        if let failure { throw failure }
    }

    /// Waits for the next page; `nil` after ``finish()``.
    func next() async -> Offer? {
        await withCheckedContinuation { (receiver: CheckedContinuation<Offer?, Never>) in
            let offer: Offer?
            switch self.state.withLockedValue({ state -> State in
                let previous = state
                switch state {
                case .idle, .awaited: state = .awaited(receiver)
                case .offered: state = .idle
                case .ended: break
                }
                return previous
            }) {
            case .idle, .awaited: return
            case .offered(let waiting): offer = waiting
            case .ended: offer = nil
            }
            receiver.resume(returning: offer)
        }
    }

    /// Ends the receiver's wait: no page follows.
    func finish() {
        let previous = self.state.withLockedValue { state -> State in
            let previous = state
            state = .ended
            return previous
        }
        if case .awaited(let receiver) = previous { receiver.resume(returning: nil) }
    }
}
