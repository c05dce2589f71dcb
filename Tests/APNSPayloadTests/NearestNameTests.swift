// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

@Suite struct NearestNameTests {
    @Test(
        arguments: [
            ("--cert", ["--port", "--certificate", "--trust"], "--certificate"),
            ("--tokens-file", ["--passphrase-file", "--tokens"], "--tokens"),
            ("--dry_run", ["--dry-run"], "--dry-run"), ("--DryRun", ["--dry-run"], "--dry-run"),
            ("sned", ["send", "feedback"], "send"), ("snd", ["send"], "send"),
            ("--expired", ["--allow-expired-certificate"], "--allow-expired-certificate"),
            ("--key-file", ["--key", "--key-id"], "--key"),
        ] as [(String, [String], String)]
    ) func `a typing error, the beginning of a name and a name with more behind it are near`(
        _ typed: String,
        _ names: [String],
        _ nearest: String
    ) {
        #expect(NearestName.find(typed, in: names) == nearest)
    }

    @Test(arguments: ["", "--", "--x", "frobnicate", String(repeating: "a", count: 100_000)])
    func `other words are not`(_ typed: String) {
        #expect(NearestName.find(typed, in: ["send", "--port", "--certificate", "--key"]) == nil)
    }
}
