// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
public import APNSCertificates

extension IssuedIdentity.PKCS12Form: ExpressibleByArgument {
    /// The names of the formats that can be written.
    private static let named = ["legacy": Self.tripleDES, "modern": .aes256]

    /// Parses the name of a format.
    public init?(argument: String) {
        guard let form = Self.named[argument] else { return nil }
        self = form
    }

    /// The names of all formats that can be written.
    public static var allValueStrings: [String] { self.named.keys.sorted() }
}

extension CertificateChecker.ReaderAge: ExpressibleByArgument {}

extension ConvertedIdentity.Form: ExpressibleByArgument {
    /// Parses the name of a format.
    public init?(argument: String) {
        guard let form = argument == "pem" ? .pem : IssuedIdentity.PKCS12Form(argument: argument).map(Self.pkcs12)
        else { return nil }
        self = form
    }

    /// The names of all formats.
    public static var allValueStrings: [String] { IssuedIdentity.PKCS12Form.allValueStrings + ["pem"] }
}
