// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSProvider
import APNSWire
import ArgumentParser
import OpenSSLTLS
import TokenStore

/// Which dead tokens are left out.
struct SendPurgeOptions: ParsableArguments, Sendable {
    @Option(
        help: .value("file", "Do not send to the dead tokens in this purge list, a file or the address of a database."),
        completion: .file()
    )
    var purgeList: String?

    @Option(help: .value("name", "The environment of the tokens. (default: that of --environment)"))
    var purgeEnvironment: PushEnvironment?

    @Flag(
        help: """
            At the end, add tokens rejected with 410 to the purge list, and those with status 8 or BadDeviceToken \
            unless nothing was accepted or too many in a row were rejected.
            """
    )
    var purgeRejected = false

    func validate() throws {
        guard self.purgeList == nil else { return }
        for (name, isSaid) in [
            ("--purge-environment", self.purgeEnvironment != nil), ("--purge-rejected", self.purgeRejected),
        ] where isSaid {
            throw ValidationError("\(name) needs --purge-list FILE")
        }
    }

    /// What the tokens of the batch are of: the topics of `--topic` or the certificate, never none.
    func scopes(_ command: SendCommand, _ identity: TLSIdentity?) throws -> [TokenScope] {
        guard let environment = command.endpoint.environment ?? self.purgeEnvironment else {
            throw CommandFailure(.usage, "--purge-list needs --purge-environment production or sandbox")
        }
        guard self.purgeEnvironment ?? environment == environment else {
            throw CommandFailure(.usage, "--environment and --purge-environment differ; use the same")
        }
        let topics = command.batch.topic.map { [$0] } ?? identity.map { ProviderIdentity($0.certificate).topics } ?? []
        guard !topics.isEmpty else {
            throw CommandFailure(.usage, "--purge-list needs --topic BUNDLE-ID, because the certificate names no topic")
        }
        return topics.map { TokenScope(topic: $0, environment: environment) }
    }
}
