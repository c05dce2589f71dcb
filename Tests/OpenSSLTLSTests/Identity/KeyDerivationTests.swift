// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport
import Testing

@testable import OpenSSLTLS

/// Goal: a file cannot make its reader compute for minutes before an error.
///
/// Method: the `openssl` program creates files with an iteration count of three bytes; then each count is replaced by
/// 8,388,607. Deriving one key with that takes seconds, rejecting it takes none.
@Suite(.timeLimit(.minutes(1)))
struct KeyDerivationTests {
    private let folder: TemporaryFolder
    private let issued: IssuedIdentity

    /// 70,000 as a DER INTEGER, and the largest number of the same size.
    private static let count: [UInt8] = [2, 3, 0x01, 0x11, 0x70]
    private static let largeCount: [UInt8] = [2, 3, 0x7F, 0xFF, 0xFF]

    init() throws {
        self.folder = try TemporaryFolder()
        self.issued = try Certificates.client.get()
    }

    private func openSSL(_ arguments: [String]) async throws -> [UInt8] {
        _ = try self.folder.write("identity.pem", self.issued.pem)
        let output = self.folder.path + "/output"
        _ = try await OpenSSLTool.output(arguments + ["-in", self.folder.path + "/identity.pem", "-out", output])
        return Array(try Data(contentsOf: URL(filePath: output)))
    }

    /// Copies of the file, each with another one of its counts replaced by the large one.
    private static func enlarged(_ bytes: [UInt8]) -> [[UInt8]] {
        (0...bytes.count - self.count.count)
            .map { $0..<$0 + self.count.count }
            .filter { bytes[$0].elementsEqual(self.count) }
            .map { range in
                var copy = bytes
                copy.replaceSubrange(range, with: self.largeCount)
                return copy
            }
    }

    private func expectRefused(_ name: String, _ body: () throws -> Void) {
        let start = processorTime()
        let error = #expect(throws: TLSError.self, "\(name)") { try body() }
        // The counts are added in order, so an earlier one may be included.
        let isReported = ["8388607 iterations", "8458607 iterations"].contains {
            error?.description.contains($0) == true
        }
        #expect(isReported, "\(name): \(String(describing: error))")
        #expect(processorTime() - start < .seconds(2), "\(name)")
    }

    @Test(
        arguments: [
            (["-nomac"], 1), (["-nomac", "-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES"], 2),
            (["-nomac", "-certpbe", "NONE"], 1), ([], 1),
        ] as [(more: [String], count: Int)]
    )
    func `a PKCS#12 file with too many iterations anywhere is rejected immediately`(
        _ more: [String],
        _ count: Int
    ) async throws {
        let arguments = ["pkcs12", "-export", "-passout", "pass:x", "-iter", "70000"] + more
        let file = try await self.openSSL(arguments)
        let identity = try TLSIdentity(bytes: file, passphrase: TLSPassphrase("x"))
        #expect(identity.certificate == self.issued.identity.certificate)
        // The checksum covers everything but itself, so if there is one, only its own count can be changed.
        let files = more.isEmpty ? Array(Self.enlarged(file).suffix(1)) : Self.enlarged(file)
        #expect(files.count == count)
        for (index, file) in files.enumerated() {
            self.expectRefused("count \(index)") { _ = try TLSIdentity(bytes: file, passphrase: TLSPassphrase("x")) }
        }
    }

    @Test func `counts that exceed the limit only together are rejected`() async throws {
        let count = TestEffort.count(1_700_000, long: 2_000_000)
        let file = try await self.openSSL(["pkcs12", "-export", "-passout", "pass:x", "-iter", "\(count)"])
        let error = #expect(throws: TLSError.self) { try TLSIdentity(bytes: file, passphrase: TLSPassphrase("x")) }
        guard case .keyDerivationTooLong(3 * count, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `an encrypted key with too many iterations is rejected immediately, in PEM and in DER`() async throws {
        let arguments = ["pkcs8", "-topk8", "-passout", "pass:x", "-v2", "aes256", "-iter", "70000"]
        let file = try await self.openSSL(arguments + ["-outform", "DER"])
        for key in Self.enlarged(file) {
            let text = Data(key).base64EncodedString(options: .lineLength64Characters)
            let pem = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\(text)\n-----END ENCRYPTED PRIVATE KEY-----\n"
            for (form, key) in [("DER", key), ("PEM", Array(pem.utf8))] {
                self.expectRefused(form) {
                    let certificate = self.issued.certificatePEM
                    _ = try TLSIdentity(bytes: certificate, key: key, passphrase: TLSPassphrase("x"))
                }
            }
        }
        let identity = try TLSIdentity(bytes: issued.certificatePEM, key: file, passphrase: TLSPassphrase("x"))
        #expect(identity.certificate == self.issued.identity.certificate)
    }

    @Test func `a key encrypted with scrypt is read, and rejected if that would take long`() async throws {
        let arguments = ["pkcs8", "-topk8", "-passout", "pass:x", "-outform", "DER", "-scrypt", "-scrypt_N", "4096"]
        let key = try await self.openSSL(arguments + ["-scrypt_r", "8", "-scrypt_p", "1"])
        let identity = try TLSIdentity(bytes: issued.certificatePEM, key: key, passphrase: TLSPassphrase("x"))
        #expect(identity.certificate == self.issued.identity.certificate)
        // N, r and p: 4096, 8 and 1; p is changed to 127.
        let place: [UInt8] = [2, 2, 0x10, 0, 2, 1, 8, 2, 1, 1]
        let index = try #require(key.indices.dropLast(9).first { key[$0..<$0 + 10].elementsEqual(place) })
        var large = key
        // OpenSSL allows it 32 MiB of memory, which is enough even for 127 times the work.
        large[index + 9] = 127
        large[index + 6] = 7
        let error = #expect(throws: TLSError.self) {
            try TLSIdentity(bytes: issued.certificatePEM, key: large, passphrase: TLSPassphrase("x"))
        }
        guard case .keyDerivationTooLong(4096 * 7 * 127 * 2, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }
}
