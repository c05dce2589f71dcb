// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import ListenerFixtures
import Logging
import NIOCore
import NIOEmbedded
import OpenSSLTLS
import Testing

@testable import APNSServer

/// Goal: refused clients cannot displace log lines about admitted providers.
@Suite struct ConnectionAdmissionTests {
    @Test func `refused connections do not displace log lines about admitted providers`() throws {
        let lines = LogLines()
        let logger = lines.logger(.info)
        let registry = ConnectionRegistry(countMax: 1, unauthenticatedCountMax: 1)
        let door = ConnectionAdmission(registry, logger: logger)
        let channel = EmbeddedChannel()
        for _ in 0..<RefusalLog.burst + 50 { door.handshakeFailed(channel, TLSError.clientCertificateMissing) }
        door.refusals.log("notifications dropped", [LogKey.dropped: "1"])
        let refused = lines.of("connection refused")
        // A slow run allows some more.
        #expect((RefusalLog.burst..<RefusalLog.burst + 50).contains(refused.count))
        #expect(refused.allSatisfy { $0.metadata["apns.legacy.provider.admitted"] == "false" })
        let dropped = lines.of("notifications dropped")
        #expect(dropped.count == 1 && dropped[0].metadata["apns.legacy.provider.admitted"] == nil)
        #expect(dropped.first?.metadata["apns.legacy.refusal.leftout"] == nil)
    }

    @Test(arguments: CertificateAlert.allCases)
    func `a provider that rejects the certificate is logged as such`(
        _ alert: CertificateAlert
    ) throws {
        let lines = LogLines()
        let registry = ConnectionRegistry(countMax: 1, unauthenticatedCountMax: 1)
        let admission = ConnectionAdmission(registry, logger: lines.logger(.info))
        admission.handshakeFailed(EmbeddedChannel(), TLSError.ownCertificateRefused(alert: alert.rawValue, detail: ""))
        #expect(lines.of("connection refused").isEmpty)
        let line = try #require(lines.of("provider does not trust this listener").first)
        #expect(line.level == .warning)
        #expect("\(line.metadata["apns.legacy.refusal.reason"] ?? "")".contains(alert.name))
        #expect(line.metadata["apns.legacy.provider.admitted"] == "false")
        // The log of a gateway would cut a longer value.
        #expect("\(line.metadata["apns.legacy.refusal.remedy"] ?? "")".utf8.count < 1000)
    }

    @Test func `another handshake alert is not logged as a rejected certificate`() {
        #expect(CertificateAlert(TLSError.ownCertificateRefused(alert: 116, detail: "")) == nil)
        #expect(CertificateAlert(TLSError.handshakeTimedOut) == nil)
    }

    @Test func `an address is formatted with its port`() throws {
        #expect(try SocketAddress(ipAddress: "192.0.2.1", port: 2195).hostAndPort == "192.0.2.1:2195")
        #expect(try SocketAddress(ipAddress: "::1", port: 2195).hostAndPort == "[::1]:2195")
    }
}
