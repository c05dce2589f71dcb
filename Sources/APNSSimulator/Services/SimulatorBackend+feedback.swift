// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTransport
import APNSWire

/// Lists the dead tokens to which something was sent, by topic and environment.
extension SimulatorBackend: FeedbackStore {
    func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        guard self.policy.isTrusted(provider), let topic = provider.identity.topic else { return nil }
        return SimulatorFeedbackList(self, topic: topic)
    }
}

/// The list of one connection.
final class SimulatorFeedbackList: FeedbackList {
    private let devices: DeviceRegistry
    private let tuples: [FeedbackTuple]
    /// The number of tuples per portion; `nil` for as many as requested.
    private let portionCountMax: Int?
    private var index = 0

    init(_ backend: SimulatorBackend, topic: String) {
        self.devices = backend.devices
        // The listener expects progress between portions.
        self.portionCountMax = backend.schedule.hasFaults(.writing, at: .feedback) ? 1 : nil
        self.tuples = backend.devices.feedback(topic: topic, environment: backend.devices.environment).map(\.tuple)
    }

    func next(_ countMax: Int) -> [FeedbackTuple] {
        let portion = self.tuples[self.index...].prefix(min(countMax, self.portionCountMax ?? countMax))
        self.index += portion.count
        return Array(portion)
    }

    func acknowledge() {
        self.devices.removeFeedback(self.tuples[..<self.index])
    }
}
