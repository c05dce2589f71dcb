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
            ("--key-file", ["--key", "--key-id"], "--key"), ("device_token", ["token", "id"], "token"),
            ("deviceToken", ["token", "id"], "token"), ("user_id", ["token", "id"], "id"),
            ("User ID", ["token", "id"], "id"),
        ] as [(String, [String], String)]
    ) func `a typing error, the beginning of a name and a name with more behind it are near`(
        _ typed: String,
        _ names: [String],
        _ nearest: String
    ) {
        #expect(NearestName.find(typed, in: names) == nearest)
    }

    @Test(arguments: [
        ("bagde", "badge"), ("contentAvailable", "content-available"), ("content-avalable", "content-available"),
        ("alertt", "alert"), ("badge-count", nil), ("my-alert", nil), ("alerting", nil), ("x", nil),
    ])
    func `typing errors alone are near if nothing else counts`(_ typed: String, _ nearest: String?) {
        #expect(NearestName.find(typed, in: ["alert", "badge", "content-available"], .typingErrors) == nearest)
    }

    @Test(arguments: ["", "--", "--x", "frobnicate", String(repeating: "a", count: 100_000)])
    func `other words are not`(_ typed: String) {
        #expect(NearestName.find(typed, in: ["send", "--port", "--certificate", "--key"]) == nil)
    }
}
