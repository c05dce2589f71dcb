// SPDX-License-Identifier: Apache-2.0

package import APNSCertificates
import APNSFeedback
import APNSProviderHTTP2
import APNSTransport

extension ServerNames {
    /// The host names of Apple's binary gateways and feedback services.
    package static let binary = [Endpoint.production, .sandbox, .productionFeedback, .sandboxFeedback].map(\.host)

    /// The host names of Apple's HTTP/2 services.
    package static let http2 =
        [HTTP2Endpoint.production, .development].map(\.host) + ["api.development.push.apple.com"]

    /// The names of the simulator's certificate: loopback, and all host names of Apple's services.
    ///
    /// A client with a fixed host name only needs a line in `/etc/hosts`.
    package static let all = Self.loopback + Self.binary + Self.http2
}
