// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// The sections of a configuration file, each with the keys that it may have.
///
/// The parser takes no others, and docs/gateway-configuration.md has exactly these, which a test sees to.
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
                "connections", "unprovedPerAddress", "handshake", "idle", "inFlightPerConnection", "verdict", "drain",
                "drainIdle", "shutdown",
            ]
        case .admin: ["host", "port"]
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

    /// How many letters of a misspelled key may be wrong for another one to be named.
    private static let misspellingMax = 2

    /// What is said of a key that the section does not have.
    func answer(toUnknown key: String) -> String {
        let keys = self.keys.joined(separator: ", ")
        // The time that it takes grows with the length.
        let name = key.prefix(64).lowercased()
        let nearest = self.keys.map { (key: $0, distance: $0.lowercased().editDistance(to: name)) }
            .min { $0.distance < $1.distance }
        guard let nearest, nearest.distance <= Self.misspellingMax else {
            return "there is no such key; here are \(keys)"
        }
        return "there is no such key; did you mean \(nearest.key)? Here are \(keys)"
    }
}
