// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
public import TestCertificates

extension TestIdentity.PKCS12Form: ExpressibleByArgument {
    /// The forms that are written, by what options call them.
    private static let named = ["legacy": Self.tripleDES, "modern": .aes256]

    /// Takes what an option calls a form.
    public init?(argument: String) {
        guard let form = Self.named[argument] else { return nil }
        self = form
    }

    /// What options call the forms that are written.
    public static var allValueStrings: [String] { self.named.keys.sorted() }
}
