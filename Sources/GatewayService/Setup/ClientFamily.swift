// SPDX-License-Identifier: Apache-2.0

import APNSCertificates

/// The language of an old provider, which determines the format of its certificate and the next steps.
package enum ClientFamily: String, CaseIterable, Sendable {
    case php, java, ruby, python, node, go, dotnet, c, other

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
        case .php, .ruby: [.combined]
        case .java, .dotnet: [.legacyPKCS12, .passphrase]
        case .python: [.combined, .certificate, .traditionalKey]
        case .node, .go: [.certificate, .key]
        case .c: [.certificate, .traditionalKey]
        case .other: IdentityFile.allCases.filter { $0 != .pkcs12 }
        }
    }

    /// Whether many clients in this language ignore error responses, and lose what they write after a rejection.
    var ignoresRejections: Bool { [.php, .ruby, .python].contains(self) }

    /// Whether clients check that their own certificate looks like Apple's, as PushSharp 2.2 does: its issuer contains
    /// "Apple", and its subject the name of the service for its environment.
    var requiresAppleNames: Bool { self == .dotnet }

    /// Two steps for a newcomer: how to trust the gateway, and where the certificate goes.
    var steps: [String] {
        switch self {
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
                Make Windows trust the gateway, as an administrator:
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
