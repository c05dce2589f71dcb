// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import CLinux
import Testing

@testable import OpenSSLTLS

/// Goal: no revoked certificate verifies, whatever the file of revocation lists looks like.
@Suite struct CertificateVerifierTests {
    private let root: CertificateAuthority
    private let middle: CertificateAuthority
    private let client: IssuedIdentity

    init() throws {
        self.root = try CertificateAuthority(name: "Root")
        self.middle = try self.root.issueAuthority(name: "Middle")
        self.client = try self.middle.issueClient(topic: "com.example.app")
    }

    private func problem(_ trust: [CertificateAuthority], _ lists: [UInt8]) throws -> TLSError? {
        try CertificateVerifier(authorities: trust.flatMap(\.certificatePEM), revocations: lists)
            .problem(of: self.client.identity.certificate, intermediates: [self.middle.certificate])
    }

    /// Found by fuzzing: a file that a running gateway reads at each reload.
    @Test func `unusable files leave no memory allocated`() throws {
        let authority = self.root.certificatePEM
        let damaged = Array("no list".utf8)
        func fail(_ count: Int) {
            for _ in 0..<count {
                #expect(throws: TLSError.self) { try CertificateVerifier(authorities: damaged) }
                #expect(throws: TLSError.self) { try CertificateVerifier(authorities: authority, revocations: damaged) }
            }
        }
        fail(100)
        let before = mallinfo2().uordblks
        fail(1000)
        // 2000 stores have 2 MB.
        #expect(Int(mallinfo2().uordblks) - Int(before) < 500_000)
    }

    /// Damages of the second list.
    static let damages: [(name: String, change: @Sendable ([UInt8]) -> [UInt8])] = [
        ("a character that is not base64", { $0.prefix(80) + [UInt8(ascii: "!")] + $0.dropFirst(81) }),
        ("bytes that are no list", { $0.prefix(40) + [UInt8(ascii: "A")] + $0.dropFirst(41) }),
        ("no last line", { Array($0.dropLast(26)) }), ("a damaged first line", { Array($0.dropFirst(1)) }),
        (
            "another label",
            { Array(String(decoding: $0, as: UTF8.self).replacing("X509 CRL", with: "X509 CR").utf8) }
        ),
        ("only the last line", { Array($0.suffix(26)) }),
    ]

    @Test(arguments: damages.indices) func `a damaged list after a good one is an error`(_ index: Int) throws {
        let damage = Self.damages[index]
        let good = try self.root.revocationList(of: [])
        let second = try self.middle.revocationList(of: [self.client.identity.certificate])
        let whole = try self.problem([self.root], good + second)
        guard case .certificateRevoked = whole else {
            Issue.record("not revoked: \(String(describing: whole))")
            return
        }
        let error = #expect(throws: TLSError.self, "\(damage.name)") {
            try self.problem([self.root], good + damage.change(second))
        }
        guard case .trustUnusable = error else {
            Issue.record("\(damage.name): \(String(describing: error))")
            return
        }
    }

    @Test func `text and certificates around the lists are no damage`() throws {
        let lists = try self.root.revocationList(of: []) + self.middle.revocationList(of: [])
        let text = Array("issued by the X509 CRL service\n".utf8)
        #expect(try self.problem([self.root], text + self.root.certificatePEM + lists + text) == nil)
    }

    @Test func `a revoked intermediate authority revokes what it issued`() throws {
        let own = try self.middle.revocationList(of: [])
        #expect(try self.problem([self.root], try self.root.revocationList(of: []) + own) == nil)
        let problem = try self.problem([self.root], try self.root.revocationList(of: [self.middle.certificate]) + own)
        guard case .certificateRevoked(let detail) = problem else {
            Issue.record("not revoked: \(String(describing: problem))")
            return
        }
        #expect(detail.contains("CN=Middle"))
        // Also if the intermediate authority is among the trusted ones, and so is its issuer.
        let both = try self.problem(
            [self.middle, self.root],
            try self.root.revocationList(of: [self.middle.certificate]) + own
        )
        #expect(both != nil)
    }

    @Test func `each authority of the chain needs a list, except above the trusted one`() throws {
        let (own, other) = (try self.middle.revocationList(of: []), try self.root.revocationList(of: []))
        #expect(try self.problem([self.root], own) != nil)
        #expect(try self.problem([self.root], other) != nil)
        #expect(try self.problem([self.middle], own) == nil)
        #expect(try self.problem([self.middle], own + other) == nil)
    }

    /// The problem with current lists of both authorities, or without revocation checks, and with additional ones.
    private func problem(
        _ trust: [CertificateAuthority],
        checksRevocation: Bool = true,
        additional lists: [UInt8]
    ) throws -> TLSError? {
        try CertificateVerifier(
            authorities: trust.flatMap(\.certificatePEM),
            revocations: checksRevocation
                ? self.root.revocationList(of: []) + self.middle.revocationList(of: []) : nil,
            additionalRevocations: CertificateVerifier.readableLists(in: lists)
        )
        .problem(of: self.client.identity.certificate, intermediates: [self.middle.certificate])
    }

    @Test(arguments: [true, false]) func `an additional list refuses what it revokes, even if it has expired`(
        _ checksRevocation: Bool
    ) throws {
        let period = CertificateAuthority.Period(notBefore: 0, notAfter: 3600)
        let client = self.client.identity.certificate
        let lists = [
            try self.middle.revocationList(of: [client], period: period),
            try self.root.revocationList(of: [self.middle.certificate], period: period),
        ]
        for (list, name) in zip(lists, ["CN=Apple Push Services", "CN=Middle"]) {
            // The issuer of the trusted end may be among the authorities.
            for trust in [[self.root], [self.middle, self.root]] {
                let problem = try self.problem(trust, checksRevocation: checksRevocation, additional: list)
                guard case .certificateRevoked(let detail) = problem else {
                    Issue.record("not revoked: \(String(describing: problem))")
                    continue
                }
                #expect(detail.contains(name))
            }
        }
        #expect(try self.problem([self.middle], checksRevocation: checksRevocation, additional: lists[0]) != nil)
        // The key of the root is unknown.
        #expect(try self.problem([self.middle], checksRevocation: checksRevocation, additional: lists[1]) == nil)
    }

    @Test func `an additional list refuses nothing else`() throws {
        let (middle, client) = (self.middle.certificate, self.client.identity.certificate)
        let twin = try CertificateAuthority(name: "Middle")
        let lists = [
            try self.middle.revocationList(of: []), try self.middle.revocationList(of: [middle]),
            try self.root.revocationList(of: [client]), try twin.revocationList(of: [client]),
        ]
        for list in lists { #expect(try self.problem([self.root], additional: list) == nil) }
        #expect(try self.problem([self.root], additional: lists.flatMap(\.self)) == nil)
    }

    @Test(arguments: damages.indices) func `lists around a damaged one can be read`(_ index: Int) throws {
        let client = self.client.identity.certificate
        let good = try self.root.revocationList(of: [])
        let (revoking, other) = (
            try self.middle.revocationList(of: [client]), try self.root.revocationList(of: [client])
        )
        let text = good + Self.damages[index].change(other) + self.root.certificatePEM + revoking
        let lists = CertificateVerifier.readableLists(in: text)
        #expect(lists == CertificateVerifier.readableLists(in: good + revoking) && lists.count == 2)
        #expect(CertificateVerifier.readableLists(in: Array("none".utf8)).isEmpty)
    }

    @Test func `the verifier knows the list of each authority`() throws {
        let twin = try CertificateAuthority(name: "Root")
        let verifier = try CertificateVerifier(
            authorities: self.root.certificatePEM + self.middle.certificatePEM,
            // A list with the right name and another signature.
            revocations: try twin.revocationList(of: []) + self.middle.revocationList(of: [])
        )
        let statuses = try #require(verifier.revocationStatuses)
        #expect(statuses.map(\.authority) == [self.root.certificate, self.middle.certificate])
        #expect(statuses[0].validity == nil)
        #expect((statuses[1].validity?.count ?? 0) > 86_000)
        #expect(try CertificateVerifier(authorities: self.root.certificatePEM).revocationStatuses == nil)
    }
}
