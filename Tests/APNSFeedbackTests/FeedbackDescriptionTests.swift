// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSTestKit
import TestSupport
import Testing

/// Goal: feedback clients are printed in one line, without the certificate.
@Suite struct FeedbackDescriptionTests {
    @Test func `each description is one line, without bytes`() throws {
        let folder = try TemporaryFolder()
        let configuration = try FeedbackConfiguration(
            host: "localhost",
            identity: FeedbackFixture.provider.get().identity,
            trust: .pem(FeedbackFixture.authority.get().certificatePEM)
        )
        let client = try FeedbackClient(configuration, spool: folder.path + "/spool")
        let values: [Any] = [configuration, client, FeedbackPoller([client], every: nil, onPage: { _ in })]
        for value in values {
            for printed in PrintedText.all(of: value) {
                #expect(printed.isShortLine && !printed.showsBytes, "\(printed)")
            }
        }
    }

    @Test func `the default port is that of the feedback service`() throws {
        let identity = try FeedbackFixture.provider.get().identity
        #expect(try FeedbackConfiguration(host: "localhost", identity: identity).endpoint.port == 2196)
    }
}
