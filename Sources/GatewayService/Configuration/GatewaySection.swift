// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// The sections of a configuration file, with the valid keys of each.
///
/// The parser rejects other keys. A test verifies that docs/gateway-configuration.md lists exactly these.
enum GatewaySection: String, CaseIterable {
    case root = ""
    case listen
    case limits
    case admin
    case server
    case provider = "providers[]"
    case clients = "providers[].clients"
    case pin = "providers[].clients.pins[]"
    case upstream = "providers[].upstream"
    case providerLimits = "providers[].limits"
    case retry = "providers[].retry"
    case overrides = "providers[].overrides"

    var keys: [String] {
        switch self {
        case .root: ["listen", "limits", "admin", "log", "server", "feedback", "providers"]
        case .listen: ["host", "port", "feedbackPort", "tlsMinimum", "tlsMaximum", "ciphers"]
        case .limits:
            [
                "connections", "unauthenticatedPerAddress", "handshake", "idle", "inFlightPerConnection", "verdict",
                "drain",
                "drainIdle", "shutdown",
            ]
        case .admin: ["host", "port", "names"]
        case .server: ["certificate", "key", "passphraseFile"]
        case .provider:
            [
                "name", "clients", "topic", "environment", "upstream", "payloadLimit", "rejections",
                "rejectedToFeedback", "limits", "retry", "overrides",
            ]
        case .clients: ["authority", "revocations", "pins"]
        case .pin: ["fingerprint", "allowExpired"]
        case .upstream:
            [
                "certificate", "key", "passphraseFile", "p8", "keyID", "teamID", "host", "port", "trust",
                "connections",
            ]
        case .providerLimits: ["inFlight", "remembered", "rememberedFor"]
        case .retry: ["budget", "first", "longest", "atMostOnce"]
        case .overrides: ["pushType", "passPushType", "priority", "lifetime", "relativeExpiry"]
        }
    }

    /// Returns the error text for a key that the section does not have.
    func answer(toUnknown key: String) -> String { "unknown key \(key.answer(asUnknownOf: self.keys, "keys"))" }
}
