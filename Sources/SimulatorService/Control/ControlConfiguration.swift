// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import ServiceSupport

/// The address and access rules of the control listener.
package struct ControlConfiguration: Sendable {
    /// The address to listen on.
    package var host = "127.0.0.1"

    /// The port to listen on; 0 for any free port.
    package var port = 0

    /// The access token; `nil` for none, which is permitted only on loopback addresses.
    package var token: String?

    /// Further host names of the listener, without ports.
    package var names: [String] = []

    /// The apps' localized strings for previews.
    package var strings: LocalizedStrings = [:]

    /// Creates a configuration with defaults.
    package init() {}

    /// Whether the listener is reachable only from this machine.
    package var isLoopback: Bool { HostName(self.host).isLoopback }
}
