// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire

/// Lets every provider in whose certificate was verified, unless a fault says otherwise.
struct SimulatorBackend: DeliveryBackend {
    let devices: DeviceRegistry
    let schedule: FaultSchedule<Fault>
    /// How providers are told of ends that are their own fault.
    let report: FaultReport
    let faults: ConnectionFaults
    let environment: Environment
    let onDelivery: (@Sendable (DeliveredNotification) -> Void)?

    /// All outcomes come at once, and what is behind the first failing message must never count as delivered.
    var requiresOrder: Bool { true }

    func admit(_ provider: ProviderConnection) -> Admission {
        self.devices.change { $0.connectionCount += 1 }
        let fault = self.schedule.fault(connection: provider.number)
        let handlers = self.faults.handlers(of: provider.number)
        switch fault?.effect {
        case .refuse:
            self.devices.change { $0.closedConnectionCount += 1 }
            if let report = fault?.report { handlers?.report.begin(report) {} }
            return .refused
        case .slow(let pace): handlers?.throttle.setPace(pace)
        case .reject, .shutDown, .cut, nil: break
        }
        return .admitted(SimulatorConnection(provider, backend: self, reportHandler: handlers?.report))
    }
}
