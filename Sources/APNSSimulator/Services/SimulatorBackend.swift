// SPDX-License-Identifier: Apache-2.0

import APNSServer

/// Lets every provider in whose certificate was verified, unless a fault says otherwise.
struct SimulatorBackend: DeliveryBackend {
    let devices: DeviceRegistry
    let faults: ConnectionFaults

    /// All outcomes come at once, and what is behind the first failing message must never count as delivered.
    var requiresOrder: Bool { true }

    func admit(_ provider: ProviderConnection) -> Admission {
        self.devices.change { $0.connectionCount += 1 }
        let handlers = self.faults.handlers(of: provider.number)
        if let fault = self.faults.schedule.fault(.admission, at: .binary, connection: provider.number) {
            self.devices.change { $0.closedConnectionCount += 1 }
            handlers?.report.begin(fault.report) {}
            return .refused
        }
        return .admitted(SimulatorConnection(provider, backend: self, reportHandler: handlers?.report))
    }
}
