// SPDX-License-Identifier: Apache-2.0

import APNSServer

/// Lets every provider in whose certificate was verified, unless the policy or a fault says otherwise.
struct SimulatorBackend: DeliveryBackend {
    let devices: DeviceRegistry
    let faults: ConnectionFaults
    let policy: ServicePolicy

    /// All outcomes come at once, and what is behind the first failing message must never count as delivered.
    var requiresOrder: Bool { true }

    func admit(_ provider: ProviderConnection) -> Admission {
        // Who comes too often is counted whatever else is wrong.
        let isInTime = self.policy.takeConnection(provider)
        guard isInTime, self.policy.isTrusted(provider) else { return .refused }
        let handlers = self.faults.handlers(of: provider.number)
        if let fault = self.faults.schedule.fault(.admission, at: .binary, connection: provider.number) {
            handlers?.report.begin(fault.report) {}
            return .refused
        }
        return .admitted(SimulatorConnection(provider, backend: self, reportHandler: handlers?.report))
    }
}
