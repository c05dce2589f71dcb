// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Outcomes on their way from any thread to the event loop of their connection, many at a time.
package final class OutcomeQueue: Sendable {
    /// What became of one message.
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

    /// Lets a handler take the outcomes, from its own event loop; `nil` when the connection is gone.
    func deliver(to handler: BinaryConnectionHandler?) {
        self.receiver.value = handler
        self.waiting.withLockedValue { $0.isClosed = handler == nil }
    }

    /// Hands an outcome on to the connection, from any thread; one for a connection that is gone is passed over.
    package func put(_ number: UInt64, _ outcome: DeliveryOutcome, isLast: Bool = false) {
        let isFirst = self.waiting.withLockedValue { waiting in
            guard !waiting.isClosed else { return false }
            waiting.outcomes.append(Entry(number: number, outcome: outcome, isLast: isLast))
            return waiting.outcomes.count == 1
        }
        guard isFirst else { return }
        // Where another event loop is at work, not before it has done all it has to do now: to wake this one costs a
        // system call, and it would take an outcome or two each time.
        if let present = MultiThreadedEventLoopGroup.currentEventLoop, present !== self.eventLoop {
            present.execute { self.eventLoop.execute { self.empty() } }
        } else {
            // Never at once, even on the event loop itself: the backend may still be inside its call.
            self.eventLoop.execute { self.empty() }
        }
    }

    /// Hands on all outcomes that have come; on the event loop of the connection.
    func empty() {
        let outcomes = self.waiting.withLockedValue { waiting in
            let outcomes = waiting.outcomes
            waiting.outcomes.removeAll(keepingCapacity: outcomes.count <= 1024)
            return outcomes
        }
        self.receiver.value?.settle(outcomes)
    }
}
