// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@testable import GatewayService

@Suite struct GatewayTestResultTests {
    private static func result(
        _ outcome: DeliveryOutcome,
        _ cause: String? = nil,
        hasDevice: Bool = true,
        reports: Bool = true
    ) -> GatewayTestResult {
        GatewayTestResult(outcome, cause: cause, hasDevice: hasDevice, reportsRejections: reports)
    }

    @Test func `an accepted notification is delivered only if the service accepted it`() {
        #expect(Self.result(.accepted) == .delivered)
        #expect(Self.result(.accepted, hasDevice: false) == .acceptedWithoutDevice)
        #expect(Self.result(.accepted, "dead") == .appRemoved)
        #expect(Self.result(.accepted, "ignored", reports: false) == .refusedUnreported)
        #expect(
            Self.result(.accepted, "ignored", hasDevice: false, reports: false) == .refusedAsExpected(isReported: false)
        )
        #expect(Self.result(.accepted, reports: false) == .unreported)
        #expect(Self.result(.accepted, "accepted", reports: false) == .delivered)
    }

    @Test func `an invalid token is expected only if no device has it`() {
        let rejection = Rejection.binary(.invalidToken)
        #expect(Self.result(.rejected(rejection)) == .rejected(rejection))
        #expect(Self.result(.rejected(rejection), hasDevice: false) == .refusedAsExpected(isReported: true))
    }

    @Test func `the metrics tell why nothing was delivered`() {
        #expect(Self.result(.unsent(nil), "budget-spent") == .serviceNotReached)
        #expect(Self.result(.rejected(.binary(.shutdown)), "budget-spent") == .serviceNotReached)
        #expect(Self.result(.rejected(.binary(.shutdown)), "credential-fault") == .credentialsRefused)
        #expect(Self.result(.indeterminate(nil)) == .noAnswer)
    }

    @Test func `a failed connection names the side that refuses the other`() {
        func result(
            _ kind: ConnectionFailure.Kind,
            isServerNamed: Bool = true,
            refusal: String? = nil
        ) -> GatewayTestResult? {
            let failure = ConnectionFailure(kind, "it failed")
            return GatewayTestResult(failure, isServerNamed: isServerNamed, refusal: refusal, cause: nil)
        }
        #expect(result(.unknownAuthority) == .untrusted)
        #expect(result(.serverCertificate, isServerNamed: false) == .wrongName)
        #expect(result(.refused) == .notConnected(ConnectionFailure(.refused, "it failed")))
        #expect(result(.identity) == .notAdmitted("it failed"))
        #expect(result(.identity, refusal: "revoked") == .notAdmitted("revoked"))
        #expect(result(.closed(nil), refusal: "revoked") == .notAdmitted("revoked"))
        #expect(result(.closed(nil)) == .closed)
        let failure = ConnectionFailure(.closed(nil), "it failed")
        #expect(GatewayTestResult(failure, isServerNamed: true, refusal: nil, cause: "budget-spent") == nil)
    }
}
