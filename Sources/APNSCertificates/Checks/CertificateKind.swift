// SPDX-License-Identifier: Apache-2.0

import APNSTransport
package import APNSWire
package import OpenSSLTLS

/// The purpose of a certificate, as far as its content shows it.
package enum CertificateKind: String, Sendable, Encodable {
    case developmentIOS
    case productionIOS
    case developmentMac
    case productionMac
    case universal
    case voip
    case watch
    case website
    case pass
    case mdm
    case provider
    case server
    case authority
    case other

    /// The prefixes of the common names in Apple's certificates.
    private static let applePrefixes: [(String, CertificateKind)] = [
        ("Apple Development IOS Push Services: ", .developmentIOS),
        ("Apple Production IOS Push Services: ", .productionIOS),
        ("Apple Development Mac Push Services: ", .developmentMac),
        ("Apple Production Mac Push Services: ", .productionMac), ("Apple Push Services: ", .universal),
        ("VoIP Services: ", .voip), ("WatchKit Services: ", .watch), ("Website Push ID: ", .website),
        ("Pass Type ID: ", .pass), ("APSP:", .mdm),
    ]

    package init(_ certificate: TLSCertificate) {
        // By its extensions, a self-issued certificate from `openssl req -x509` is an authority, but it may be a
        // provider's.
        guard !certificate.isAuthority || certificate.subjectField("UID") != nil else {
            self = .authority
            return
        }
        let name = certificate.subjectField("CN") ?? ""
        if certificate.isFromApple, let (_, kind) = Self.applePrefixes.first(where: { name.hasPrefix($0.0) }) {
            self = kind
        } else if certificate.isForClients, !certificate.pushTopics.isEmpty {
            self = .provider
        } else if certificate.isForServers, certificate.hasAlternativeNames {
            self = .server
        } else {
            self = .other
        }
    }

    /// The kind in words.
    package func text(isFromApple: Bool) -> String {
        switch self {
        case .developmentIOS: "Apple's push certificate for iOS apps, development"
        case .productionIOS: "Apple's push certificate for iOS apps, production"
        case .developmentMac: "Apple's push certificate for Mac apps, development"
        case .productionMac: "Apple's push certificate for Mac apps, production"
        case .universal: "Apple's push certificate for an app and its extensions (universal)"
        case .voip: "Apple's VoIP push certificate"
        case .watch: "Apple's push certificate for a watch complication"
        case .website: "Apple's push certificate for a website"
        case .pass: "Apple's push certificate for Wallet passes"
        case .mdm: "Apple's push certificate for device management (MDM)"
        case .provider: "a provider's certificate, not issued by Apple"
        case .server: "a server's certificate"
        case .authority:
            isFromApple
                ? "an authority of Apple's, which issues certificates" : "an authority, which issues certificates"
        case .other: "a certificate for something other than push"
        }
    }

    /// Whether it is a client certificate that names its topics.
    package var isClient: Bool {
        switch self {
        case .server, .authority, .other: false
        default: true
        }
    }
}

extension TLSCertificate {
    /// Whether Apple issued it, judged by the name of its issuer.
    var isFromApple: Bool { self.issuer.contains("O=Apple Inc.") }

    /// The extension in which Apple lists the topics of VoIP certificates.
    private static let voipTopicsIdentifier = "1.2.840.113635.100.6.3.4"

    /// The topics in its UID, and in Apple's extensions .6.3.6 and .6.3.4.
    package var pushTopics: [String] {
        var topics = ProviderIdentity(self).topics
        for topic in self.voipTopics where !topics.contains(topic) { topics.append(topic) }
        return topics
    }

    /// The topics of the VoIP extension, separated by commas.
    private var voipTopics: [String] {
        guard let content = self.extensions[Self.voipTopicsIdentifier], content.count > 2, content[0] == 0x0C else {
            return []
        }
        // A short length takes one byte; a long one follows a byte with its size.
        let width = content[1] < 0x80 ? 0 : Int(content[1] & 0x7F)
        guard let text = String(validating: content.dropFirst(2 + width), as: UTF8.self) else { return [] }
        return text.split(separator: ",").map { String($0.drop { $0 == " " }) }.filter { !$0.isEmpty }
    }

    /// The environments that Apple's extensions name.
    package var pushEnvironments: [PushEnvironment] {
        let identity = ProviderIdentity(self)
        return (identity.isForProduction ? [.production] : []) + (identity.isForSandbox ? [.sandbox] : [])
    }

    /// The first of its host names, and the number of others.
    package var hostNameText: String {
        let names = self.hostNames.prefix(3).joined(separator: ", ")
        return self.hostNames.count > 3 ? "\(names) and \(self.hostNames.count - 3) more" : names
    }

    /// The whole days until it expires; negative if it has expired.
    package func dayCountLeft(at now: Int64) -> Int64 {
        let seconds = self.notAfter - now
        return seconds >= 0 ? seconds / 86_400 : -((-seconds + 86_399) / 86_400)
    }
}
