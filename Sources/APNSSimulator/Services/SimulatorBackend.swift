// SPDX-License-Identifier: Apache-2.0

import APNSServer

/// Admits every provider with a verified certificate, unless the policy or a fault refuses it.
struct SimulatorBackend: DeliveryBackend {
    let devices: DeviceRegistry
    let faults: ConnectionFaults
    let policy: ServicePolicy

    /// All outcomes are immediate, and nothing after the first failing message may count as delivered.
    var requiresOrder: Bool { true }

    func admit(_ provider: ProviderConnection) -> Admission {
        // The rate limit counts each connection, regardless of other errors.
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
