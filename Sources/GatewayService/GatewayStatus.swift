// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
package import ServiceSupport

/// Reports the state of a gateway to the service manager.
package final class GatewayStatus: Sendable {
    private let manager: ServiceManager
    /// The addresses that the gateway listens on; `nil` until it does.
    private let addresses = NIOLockedValueBox<String?>(nil)

    /// Reports to this service manager.
    package init(_ manager: ServiceManager) { self.manager = manager }

    /// Reports a change.
    package func report(_ change: Gateway.Change) {
        if case .ready(let addresses) = change { self.addresses.withLockedValue { $0 = addresses.text } }
        // A reload before the gateway listens does not make it ready.
        guard let addresses = self.addresses.withLockedValue({ $0 }) else { return }
        switch change {
        case .ready: self.manager.report(.ready(status: "Listening: \(addresses)"))
        case .reloading: self.manager.report(.reloading(status: "Reloading the configuration"))
        case .reloaded(let refusals):
            let exceptions = refusals.isEmpty ? "" : ", except: \(refusals.joined(separator: "; "))"
            self.manager.report(.ready(status: "Listening: \(addresses); configuration reloaded\(exceptions)"))
        case .notReloaded(let failure):
            self.manager.report(.ready(status: "Listening: \(addresses); configuration not reloaded: \(failure)"))
        case .ending(let duration):
            self.manager.report(.stopping(status: "Stopping: delivering accepted notifications", durationMax: duration))
        }
    }
}
