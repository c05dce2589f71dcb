// SPDX-License-Identifier: Apache-2.0

import APNSGateway

/// Lets every provider in whose certificate was verified, unless a fault says otherwise.
struct SimulatorBackend: DeliveryBackend {
    let ledger: DeviceRegistry
    let schedule: FaultSchedule
    let environment: DeviceEnvironment
    let onDelivery: (@Sendable (DeliveredNotification) -> Void)?

    /// All verdicts come at once, and what is behind the first failing message must never count as delivered.
    var requiresOrder: Bool { true }

    func admit(_ provider: ProviderConnection) -> Admission {
        self.ledger.change { $0.connectionCount += 1 }
        let fault = self.schedule.fault(connection: provider.number)
        switch fault?.effect {
        case .refuse:
            self.ledger.change { $0.closedConnectionCount += 1 }
            return .refused(fault?.report.manner(of: nil) ?? .orderly(nil))
        case .slow(let pace):
            return .admitted(SimulatorConnection(provider, backend: self, readingPace: pace))
        case .reject, .shutDown, .cut, nil:
            return .admitted(SimulatorConnection(provider, backend: self, readingPace: nil))
        }
    }
}
