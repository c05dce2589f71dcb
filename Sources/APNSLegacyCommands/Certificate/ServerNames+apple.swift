// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSProviderHTTP2
import APNSTransport
import APNSCertificates

extension ServerNames {
    /// The host names of Apple's binary gateways and feedback services.
    static let binary = [Endpoint.production, .sandbox, .productionFeedback, .sandboxFeedback].map(\.host)

    /// The names of the simulator's certificate: loopback, and all host names of Apple's services.
    ///
    /// A client with a fixed host name only needs a line in `/etc/hosts`.
    static let all =
        Self.loopback + Self.binary + [.pushService(.production), .pushService(.sandbox)].map(\Endpoint.host)
        + ["api.development.push.apple.com"]
}
