// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Passes outcomes from any thread to the event loop of their connection, in batches.
package final class OutcomeQueue: Sendable {
    /// The outcome of one message.
    package struct Entry {
        package var number: UInt64
        package var outcome: DeliveryOutcome
        package var isLast = false
    }

    private struct Waiting {
        var outcomes: [Entry] = []
        var isClosed = false
    }

    let eventLoop: any EventLoop
    private let waiting = NIOLockedValueBox(Waiting())
    private let receiver: NIOLoopBoundBox<BinaryConnectionHandler?>

    init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        self.receiver = NIOLoopBoundBox(nil, eventLoop: eventLoop)
    }

    /// Sets the handler that receives the outcomes; called on its event loop.
    ///
    /// `nil` when the connection has closed.
    func deliver(to handler: BinaryConnectionHandler?) {
        self.receiver.value = handler
        self.waiting.withLockedValue { $0.isClosed = handler == nil }
    }

    /// Adds an outcome, from any thread; one for a closed connection is ignored.
    package func enqueue(_ number: UInt64, _ outcome: DeliveryOutcome, isLast: Bool = false) {
        let isFirst = self.waiting.withLockedValue { waiting in
            guard !waiting.isClosed else { return false }
            waiting.outcomes.append(Entry(number: number, outcome: outcome, isLast: isLast))
            return waiting.outcomes.count == 1
        }
        guard isFirst else { return }
        // From another event loop, the wake-up waits until that loop has finished its current work: each wake-up costs
        // a system call, and would otherwise carry only one or two outcomes.
        if let present = MultiThreadedEventLoopGroup.currentEventLoop, present !== self.eventLoop {
            present.execute { self.eventLoop.execute { self.empty() } }
        } else {
            // Asynchronously even on the same event loop, since the backend may still be inside its call.
            self.eventLoop.execute { self.empty() }
        }
    }

    /// Passes all outcomes to the handler; on the event loop of the connection.
    func empty() {
        let outcomes = self.waiting.withLockedValue { waiting in
            let outcomes = waiting.outcomes
            waiting.outcomes.removeAll(keepingCapacity: outcomes.count <= 1024)
            return outcomes
        }
        self.receiver.value?.settle(outcomes)
    }
}
