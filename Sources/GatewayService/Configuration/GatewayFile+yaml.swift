// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSSession
import APNSTransport
import APNSWire
import OpenSSLTLS
import Yams

extension GatewayFile {
    /// Returns the effective configuration, with defaults and environment variables, in the format of the file.
    ///
    /// Keys with neither a value nor a default are omitted. Certificates, keys and passphrases appear only as paths.
    ///
    /// - Parameter directory: the working directory, which makes paths absolute.
    /// - Returns: the YAML text.
    package func yaml(directory: String) -> String {
        func path(_ path: String) -> Node { .text(path.hasPrefix("/") ? path : "\(directory)/\(path)") }
        let root = Node.section([
            ("listen", self.listen.node), ("server", self.server.node(path)),
            ("admin", self.admin?.node ?? .text("off")), ("log", .text(self.logLevel.rawValue)),
            ("feedback", path(self.feedback)), ("limits", self.limits.node),
            ("providers", Node(self.providers.map { $0.node(path) })),
        ])
        // Serializing a node of text and numbers never fails.
        return (try? Yams.serialize(node: root, width: -1)) ?? ""
    }
}

extension Node {
    fileprivate static func section(_ fields: [(key: String, value: Node?)]) -> Node {
        Node(fields.compactMap { field in field.value.map { (Node(field.key), $0) } })
    }

    /// Quoted, so that it never reads as a number.
    fileprivate static func text(_ text: String) -> Node { Node(text, Tag(.str), .doubleQuoted) }

    fileprivate static func number(_ number: Int) -> Node { Node("\(number)") }

    fileprivate static func flag(_ flag: Bool) -> Node { Node("\(flag)") }

    fileprivate static func duration(_ duration: Duration) -> Node {
        let (seconds, attoseconds) = duration.components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        return Node(milliseconds == 0 ? "\(seconds)s" : "\(seconds * 1000 + milliseconds)ms")
    }
}

extension GatewayFile.Listen {
    fileprivate var node: Node {
        .section([
            ("host", .text(self.host)), ("port", .number(self.port)), ("feedbackPort", .number(self.feedbackPort)),
            ("tlsMinimum", .text(Self.text(self.tlsMinimum))), ("tlsMaximum", .text(Self.text(self.tlsMaximum))),
            ("ciphers", self.ciphers.map { .text($0) }),
        ])
    }

    private static func text(_ version: TLSVersion) -> String {
        switch version {
        case .tls1_0: "1.0"
        case .tls1_1: "1.1"
        case .tls1_2: "1.2"
        case .tls1_3: "1.3"
        }
    }
}

extension GatewayFile.Admin {
    fileprivate var node: Node {
        let names = self.names.isEmpty ? nil : Node(self.names.map { Node.text($0) })
        return .section([("host", .text(self.host)), ("port", .number(self.port)), ("names", names)])
    }
}

extension GatewayFile.Identity {
    fileprivate func node(_ path: (String) -> Node) -> Node { .section(self.fields(path)) }

    fileprivate func fields(_ path: (String) -> Node) -> [(key: String, value: Node?)] {
        [
            ("certificate", path(self.certificate)), ("key", self.key.map(path)),
            ("passphraseFile", self.passphraseFile.map(path)),
        ]
    }
}

extension GatewayFile.Limits {
    fileprivate var node: Node {
        .section([
            ("connections", .number(self.connections)),
            ("unauthenticatedPerAddress", self.unauthenticatedPerAddress.map { .number($0) }),
            ("handshake", .duration(self.handshake)), ("idle", .duration(self.idle)),
            ("inFlightPerConnection", .number(self.inFlightPerConnection)), ("verdict", .duration(self.verdict)),
            ("drain", .duration(self.drain)), ("drainIdle", .duration(self.drainIdle)),
            ("shutdown", .duration(self.shutdown)),
        ])
    }
}

extension GatewayFile.Provider {
    fileprivate func node(_ path: (String) -> Node) -> Node {
        .section([
            ("name", .text(self.name)), ("clients", self.clientsNode(path)), ("topic", self.topic.map { .text($0) }),
            ("environment", .text(self.environment.rawValue)),
            ("upstream", self.service.node(self.environment, path)), ("payloadLimit", .number(self.payloadLimit)),
            ("rejections", .text(self.rejections.rawValue)), ("rejectedToFeedback", .flag(self.rejectedToFeedback)),
            (
                "limits",
                .section([
                    ("inFlight", .number(self.inFlight)), ("remembered", .number(self.rememberedCount)),
                    ("rememberedFor", .duration(self.rememberedDuration)),
                ])
            ),
            (
                "retry",
                .section([
                    ("budget", .duration(self.retries.budget)), ("first", .duration(self.retries.backoff.first)),
                    ("longest", .duration(self.retries.backoff.max)),
                    ("atMostOnce", .flag(self.retries.givesUpUnknownUnkept)),
                ])
            ),
            ("overrides", self.overridesNode),
        ])
    }

    private func clientsNode(_ path: (String) -> Node) -> Node {
        let pins = self.pins.map { pin in
            Node.section([("fingerprint", .text(pin.fingerprint)), ("allowExpired", .flag(pin.allowsExpired))])
        }
        return .section([
            ("authority", self.authority.map(path)), ("revocations", self.revocations.map(path)),
            ("pins", pins.isEmpty ? nil : Node(pins)),
        ])
    }

    private var overridesNode: Node {
        let rules = self.requests
        let pushType: Node? =
            switch rules.pushType {
            case .inferred: nil
            case .fixed(let type): .text(type.rawValue)
            case .omitted: .text("none")
            }
        return .section([
            ("pushType", pushType), ("passPushType", rules.passPushType.map { .text($0.rawValue) }),
            ("priority", rules.priority.map { .number(Int($0)) }), ("lifetime", rules.lifetime.map { .duration($0) }),
            ("relativeExpiry", rules.relativeExpiryMax == .zero ? nil : .duration(rules.relativeExpiryMax)),
        ])
    }
}

extension GatewayFile.Service {
    fileprivate func node(_ environment: Environment, _ path: (String) -> Node) -> Node {
        var fields: [(key: String, value: Node?)]
        switch self.credentials {
        case .certificate(let identity): fields = identity.fields(path)
        case .providerToken(let key, let keyIdentifier, let teamIdentifier):
            fields = [("p8", path(key)), ("keyID", .text(keyIdentifier)), ("teamID", .text(teamIdentifier))]
        }
        fields += [
            ("host", .text(self.host ?? Endpoint.pushService(environment).host)), ("port", .number(self.port)),
            ("trust", self.trust.map(path)), ("connections", .number(self.connections)),
        ]
        return .section(fields)
    }
}
