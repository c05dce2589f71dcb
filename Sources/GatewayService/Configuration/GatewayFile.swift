// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSSession
import APNSWire
import OpenSSLTLS

/// What the configuration file of the gateway says; nothing that it names is read yet.
package struct GatewayFile: Hashable, Sendable {
    /// The file of a certificate and what opens it.
    struct Identity: Hashable, Sendable {
        var certificate: String
        var key: String?
        var passphraseFile: String?
    }

    /// Where the gateway listens.
    struct Listen: Hashable, Sendable {
        var host = "127.0.0.1"
        var port = 2195
        var feedbackPort = 2196
        var tlsMinimum = TLSVersion.tls1_2
        var tlsMaximum = TLSVersion.tls1_2
        var ciphers: String?
    }

    /// The limits of the gateway.
    struct Limits: Hashable, Sendable {
        var connections = 1024
        /// `nil` for a quarter of the connections.
        var unprovedPerAddress: Int?
        var handshake = Duration.seconds(10)
        var idle = Duration.seconds(86_400)
        var inFlightPerConnection = 1000
        var verdict = Duration.seconds(300)
        /// How long is read on behind an error response.
        var drain = Duration.seconds(2)
        /// How long nothing may arrive behind an error response.
        var drainIdle = Duration.milliseconds(500)
        var shutdown = Duration.seconds(30)
    }

    /// Where operators look.
    struct Admin: Hashable, Sendable {
        var host = "127.0.0.1"
        var port = 9095
    }

    /// How the gateway proves itself to the service.
    enum Credentials: Hashable, Sendable {
        case certificate(Identity)
        case providerToken(key: String, keyIdentifier: String, teamIdentifier: String)
    }

    /// Where the requests of a provider go.
    struct Service: Hashable, Sendable {
        var host: String?
        var port = 443
        var trust: String?
        var credentials: Credentials
        var connections = 1
    }

    package enum LogLevel: String, CaseIterable, Hashable, Sendable { case trace, debug, info, notice, warning, error }

    /// One of the providers that are served.
    package struct Provider: Hashable, Sendable {
        static let payloadLimits = 1...WireLimits.payloadByteCountMaxVoIP

        package var name: String
        var pins: [AdmissionRule.Pin] = []
        var authority: String?
        var revocations: String?
        var topic: String?
        var environment: Environment
        var service: Service
        var payloadLimit = 2048
        var rejections = RejectionPolicy.report
        var rejectedToFeedback = false
        var inFlight = BridgeConfiguration.inFlightCountMaxDefault
        var rememberedCount = 100_000
        var rememberedDuration = Duration.seconds(120)
        var requests = RequestRules(topic: nil)
        var retries = RetryRules()
    }

    var listen = Listen()
    var limits = Limits()
    var admin: Admin? = Admin()
    package var logLevel = LogLevel.info
    var server: Identity
    /// The database of what the feedback service has to tell.
    var feedback: String
    var providers: [Provider]

    /// How many connections there are to the service.
    package var upstreamConnectionCount: Int { self.providers.reduce(0) { $0 + $1.service.connections } }
}
