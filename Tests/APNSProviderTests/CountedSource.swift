// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOConcurrencyHelpers

/// A source with this many notifications, which stores their outcomes.
final class CountedSource: NotificationSource {
    private struct State: Sendable {
        var next = 0
        var outcomes = Sending.Outcomes()
        var isHeldBack: Bool
        var wake: @Sendable () -> Void = {}
    }

    private let state: NIOLockedValueBox<State>
    private let count: Int

    /// - Parameters:
    ///   - count: the number of notifications.
    ///   - isHeldBack: whether it reports that more may come until it is ended.
    init(_ count: Int, isHeldBack: Bool = false) {
        self.count = count
        self.state = NIOLockedValueBox(State(isHeldBack: isHeldBack))
    }

    /// Ends the source.
    func end() {
        let wake = self.state.withLockedValue { state in
            state.isHeldBack = false
            return state.wake
        }
        wake()
    }

    var outcomes: Sending.Outcomes { self.state.withLockedValue(\.outcomes) }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.state.withLockedValue { state in
            while state.next < self.count {
                guard let token = try? DeviceToken(bytes: Sending.token(state.next)) else { return .ended }
                let isAppended = Array("{}".utf8).withUnsafeBytes {
                    batch.append(token: token, payload: $0, tag: UInt64(state.next))
                }
                guard isAppended else { return .available }
                state.next += 1
            }
            return state.isHeldBack ? .waiting : .ended
        }
    }

    func settle(_ settled: borrowing SettledNotifications) {
        let report = settled.report
        settled.forEachTagRange { tags in
            self.state.withLockedValue { $0.outcomes.settlements.append(Settlement(numbers: tags, report: report)) }
        }
    }

    func start(wake: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.wake = wake }
    }
}
