// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
package import APNSWire

/// The language of an old provider, or the kind of its program: the format of its certificate, and the next steps.
package enum ClientFamily: String, CaseIterable, Sendable {
    case php, java, ruby, python, node, go, dotnet, c
    case mdm, wallet, mail, calendar, contacts, safari, xmpp, sip
    case other

    /// Creates a family from its name, or another usual name of the language.
    package init?(name: String) {
        let others: [String: Self] = [
            "javascript": .node, "js": .node, "nodejs": .node, "typescript": .node, "golang": .go, "csharp": .dotnet,
            "c#": .dotnet, ".net": .dotnet, "kotlin": .java, "scala": .java, "rails": .ruby, "c++": .c, "perl": .other,
        ]
        let name = name.lowercased()
        guard let family = Self(rawValue: name) ?? others[name] else { return nil }
        self = family
    }

    /// The files that it reads its certificate from.
    var files: [IdentityFile] {
        switch self {
        case .php, .ruby, .safari, .sip: [.combined]
        case .java, .dotnet, .wallet: [.legacyPKCS12, .passphrase]
        case .python, .mdm: [.combined, .certificate, .traditionalKey]
        case .node, .go, .mail: [.certificate, .key]
        case .c: [.certificate, .traditionalKey]
        case .calendar, .contacts: [.certificate, .key, .traditionalKey]
        case .xmpp: [.certificate, .key, .legacyPKCS12, .passphrase]
        case .other: IdentityFile.allCases.filter { $0 != .pkcs12 }
        }
    }

    /// Whether many clients of this family ignore error responses, and lose what they write after a rejection, or send
    /// it again with another expiry.
    var ignoresRejections: Bool {
        switch self {
        case .php, .ruby, .python, .dotnet, .mdm, .wallet, .mail, .calendar, .contacts, .safari, .xmpp, .sip: true
        case .java, .node, .go, .c, .other: false
        }
    }

    /// Whether rejected tokens are best reported by feedback: the program reads it, or errors of this kind mislead it.
    var usesFeedbackForRejections: Bool { [.dotnet, .mail, .calendar, .contacts, .sip].contains(self) }

    /// What the topics of its programs begin with; `nil` for those of apps.
    private var topicPrefix: String? {
        switch self {
        case .mdm: "com.apple.mgmt."
        case .wallet: "pass."
        case .mail: "com.apple.mail.XServer."
        case .calendar: "com.apple.calendar.XServer."
        case .contacts: "com.apple.contact.XServer."
        case .safari: "web."
        default: nil
        }
    }

    /// The only environment in which its notifications exist; `nil` if there are two.
    package var environment: PushEnvironment? { self.topicPrefix == nil ? nil : .production }

    /// An example of a topic.
    package var topicExample: String {
        switch self {
        case .mdm: "com.apple.mgmt.External.01234567-89ab-cdef-0123-456789abcdef"
        case .wallet: "pass.com.example.card"
        case .mail, .calendar, .contacts: "\(self.topicPrefix ?? "")01234567-89ab-cdef-0123-456789abcdef"
        case .safari: "web.com.example"
        case .sip: "com.example.app.voip"
        default: "com.example.app"
        }
    }

    /// Why a topic is not one of this kind of program; `nil` if it is.
    package func problem(of topic: String) -> String? {
        guard let prefix = self.topicPrefix, !topic.hasPrefix(prefix) else { return nil }
        let kind = Self.allCases.first { $0.topicPrefix.map { topic.hasPrefix($0) } ?? false }
        return "\(topic) is no topic of --client \(self), which begins with \(prefix); use the certificate of that "
            + "kind, or --client \(kind.map(\.rawValue) ?? "LANGUAGE")"
    }

    /// Why it cannot be in an environment; `nil` if it can.
    package func problem(of environment: PushEnvironment) -> String? {
        guard let only = self.environment, only != environment else { return nil }
        return "notifications of --client \(self) exist in \(only.rawValue) only"
    }

    /// Why the service serves it only with a certificate; `nil` if a key (.p8) is possible.
    package var certificateReason: String? {
        switch self {
        case .mdm, .wallet, .mail, .calendar, .contacts:
            "--client \(self) needs --upstream-certificate: keys (.p8) serve topics of apps, and none that begin with "
                + "\(self.topicPrefix ?? "")"
        default: nil
        }
    }

    /// Whether clients check that their own certificate looks like Apple's, as PushSharp 2.2 does: its issuer contains
    /// "Apple", and its subject the name of the service for its environment.
    var requiresAppleNames: Bool { self == .dotnet }

    /// The steps for a newcomer: how to trust the gateway, and where the certificate goes.
    var steps: [String] {
        switch self {
        case .mdm, .wallet, .mail, .calendar, .contacts, .safari, .xmpp, .sip: self.stepsOfKind
        case .php:
            [
                """
                Make PHP trust the gateway. PHP before 5.6 verifies nothing and needs no change. For PHP 5.6 and later,
                on Debian or Ubuntu:
                  cp authority.pem /usr/local/share/ca-certificates/apns-legacy.crt && update-ca-certificates
                On Red Hat or CentOS:
                  cp authority.pem /etc/pki/ca-trust/source/anchors/apns-legacy.pem && update-ca-trust
                If php.ini sets openssl.cafile, append authority.pem to that file instead. To try it with one script:
                  php -d openssl.cafile=authority.pem YOUR-SCRIPT.php
                ApnsPHP: name authority.pem in setRootCertificationAuthority().
                """,
                """
                Replace the script's certificate file (local_cert, often ck.pem) with provider-combined.pem. It has
                certificate and key and no passphrase; a passphrase in the script does no harm.
                """,
            ]
        case .java:
            [
                """
                Make Java trust the gateway. Java 9 and later:
                  keytool -importcert -cacerts -storepass changeit -noprompt -alias apns-legacy -file authority.pem
                Java 8 and older:
                  keytool -importcert -keystore "$JAVA_HOME/jre/lib/security/cacerts" -storepass changeit -noprompt \\
                    -alias apns-legacy -file authority.pem
                """,
                """
                Replace the program's .p12 file with provider-legacy.p12. Its passphrase is in provider-passphrase.txt;
                put it where the program has the old passphrase, such as withCert("provider-legacy.p12", PASSPHRASE).
                """,
            ]
        case .ruby:
            [
                "grocer, houston and rpush do not verify the gateway's certificate, so they need no authority.",
                """
                Replace the program's certificate with provider-combined.pem: certificate and RSA key in one file, no
                passphrase. For rpush, store its text in the app's column certificate.
                """,
            ]
        case .python:
            [
                """
                PyAPNs, pushjack and apns-clerk do not verify the gateway's certificate, so they need no authority. In
                a program that does, set ca_certs to authority.pem.
                """,
                """
                Replace the program's certificate with provider-combined.pem (certificate and key in one file), or, if
                it needs two files (cert_file and key_file), with provider.pem and provider-traditional.key.pem.
                """,
            ]
        case .node:
            [
                """
                Make Node trust the gateway: start the program with NODE_EXTRA_CA_CERTS=/PATH/TO/authority.pem in its
                environment, or set its option ca to that file.
                """,
                "Replace the program's cert and key with provider.pem and provider.key.pem.",
            ]
        case .go:
            [
                """
                Make the program trust the gateway: start it with SSL_CERT_FILE=/PATH/TO/authority.pem in its
                environment. If it also connects elsewhere, append authority.pem to the system's authorities instead.
                """,
                "Replace the program's certificate and key with provider.pem and provider.key.pem.",
            ]
        case .dotnet:
            [
                """
                If the program verifies the gateway, make Windows trust it, as an administrator:
                  certutil -addstore -f Root authority.pem
                """,
                """
                Replace the program's .p12 file with provider-legacy.p12. Its passphrase is in provider-passphrase.txt;
                put it where the program has the old passphrase.
                """,
            ]
        case .c:
            [
                "libcapn does not verify the gateway's certificate, so it needs no authority. In a program that does, "
                    + "trust authority.pem.",
                "Replace the program's certificate and key with provider.pem and provider-traditional.key.pem.",
            ]
        case .other:
            [
                """
                If the program verifies the gateway's certificate, make it trust authority.pem: add the file to the
                authorities of the system or of the program.
                """,
                """
                Replace the program's certificate. Choose the format that it reads: provider-combined.pem (certificate
                and key), provider.pem with provider.key.pem (PKCS#8) or provider-traditional.key.pem (PKCS#1), and
                provider-legacy.p12, whose passphrase is in provider-passphrase.txt.
                """,
            ]
        }
    }
}
