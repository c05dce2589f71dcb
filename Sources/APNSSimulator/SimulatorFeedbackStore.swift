// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSWire

/// Lists the dead devices that were sent something, by topic and environment.
struct SimulatorFeedbackStore: FeedbackStore {
    let ledger: DeviceRegistry
    let environment: DeviceEnvironment
    let manner: FeedbackCloseStrategy

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        guard let topic = provider.identity.topic else { return nil }
        return SimulatorFeedbackList(self, topic: topic)
    }
}

/// What one connection is given.
final class SimulatorFeedbackList: FeedbackList {
    let manner: FeedbackCloseStrategy

    private let store: SimulatorFeedbackStore
    private let tuples: [FeedbackTuple]
    private var index = 0

    init(_ store: SimulatorFeedbackStore, topic: String) {
        self.store = store
        self.manner = store.manner
        self.tuples = store.ledger.feedback(topic: topic, environment: store.environment)
    }

    func next(_ countMax: Int) -> [FeedbackTuple] {
        let portion = self.tuples[self.index...].prefix(countMax)
        self.index += portion.count
        return Array(portion)
    }

    func acknowledge() {
        self.store.ledger.removeFeedback(self.tuples[..<self.index], environment: self.store.environment)
    }
}
