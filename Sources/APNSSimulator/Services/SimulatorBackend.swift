// SPDX-License-Identifier: Apache-2.0

import APNSServer

/// What serves a simulator's listeners: its devices, faults and policy.
///
/// Every provider with a verified certificate is admitted, unless the policy or a fault refuses it.
struct SimulatorBackend: DeliveryBackend {
    let devices: DeviceRegistry
    let faults: ConnectionFaults
    let policy: ServicePolicy
    let channels: BroadcastChannels?

    var schedule: FaultSchedule { self.faults.schedule }

    /// All outcomes are immediate, and nothing after the first failing message may count as delivered.
    var requiresOrder: Bool { true }

    func admit(_ provider: ProviderConnection) -> Admission {
        // The rate limit counts each connection, regardless of other errors.
        let isInTime = self.policy.admitConnection(provider)
        guard isInTime, self.policy.isTrusted(provider) else { return .refused }
        let reportHandler = self.faults.reportHandler(of: provider.number)
        if let fault = self.schedule.fault(.admission, at: .binary, connection: provider.number) {
            reportHandler?.refuse(fault.report)
            return .refused
        }
        return .admitted(SimulatorConnection(provider, backend: self, reportHandler: reportHandler))
    }
}
