// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Issues certificates with keys and signatures that current programs refuse, with the program `openssl`.
package struct WeakCertificates {
    private let folder: TemporaryFolder

    /// Creates an authority.
    ///
    /// - Parameter bitCount: the length of its RSA key.
    /// - Throws: if the program fails.
    package init(bitCount: Int = 2048) async throws {
        self.folder = try TemporaryFolder()
        try await self.run(
            "req -x509 -nodes -days 2 -sha256 -newkey rsa:\(bitCount) -keyout ca.key -out ca.pem -subj /CN=Weak"
        )
    }

    /// The authority in PEM.
    package var authorityPEM: [UInt8] { get throws { try self.read("ca.pem") } }

    /// Issues a certificate for com.example.app.
    ///
    /// - Parameters:
    ///   - bitCount: the length of its RSA key.
    ///   - digest: the digest that is signed.
    /// - Returns: the certificate and its key in PEM.
    /// - Throws: if the program fails.
    package func issue(bitCount: Int = 2048, digest: String = "sha256") async throws -> [UInt8] {
        try await self.run(
            "req -new -nodes -sha256 -newkey rsa:\(bitCount) -keyout a.key -out a.csr -subj /UID=com.example.app/CN=a"
        )
        try await self.run("x509 -req -in a.csr -CA ca.pem -CAkey ca.key -days 1 -\(digest) -set_serial 7 -out a.pem")
        return try self.read("a.pem") + self.read("a.key")
    }

    private func run(_ words: String) async throws {
        let names: Set = ["ca.key", "ca.pem", "a.key", "a.csr", "a.pem"]
        let arguments = words.split(separator: " ").map { names.contains(String($0)) ? self.path("\($0)") : "\($0)" }
        _ = try await Program.run("/usr/bin/openssl", arguments, deadlineSeconds: 60)
    }

    private func path(_ name: String) -> String { self.folder.path + "/" + name }

    private func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: self.path(name)))) }
}
