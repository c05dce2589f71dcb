// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import ArgumentParser
import BatchFiles
import OpenSSLTLS
import TokenStore

/// Which dead tokens are left out.
struct SendPurgeOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "Leave out the tokens of this list of dead tokens."))
    var purgeList: String?

    @Option(
        help: .value(
            "production|sandbox",
            "The environment that the tokens are of in that list, where --environment does not say."
        )
    )
    var purgeEnvironment: Environment?

    @Flag(
        help: """
            At the end, put the tokens that were rejected with status 8, or BadDeviceToken, on that list; not where \
            nothing was accepted, or too many were rejected in a row. Over HTTP/2, those with 410 always.
            """
    )
    var purgeRejected = false

    func validate() throws {
        guard self.purgeList == nil else { return }
        for (name, isSaid) in [
            ("--purge-environment", self.purgeEnvironment != nil), ("--purge-rejected", self.purgeRejected),
        ] where isSaid {
            throw ValidationError("\(name) needs --purge-list FILE.")
        }
    }
}

/// The list of dead tokens that a batch is held against.
struct SendPurge {
    private let dead: PurgeLookup
    private let list: PurgeList
    /// Where rejected tokens go; `nil` where they go nowhere.
    private let target: TokenScope?
    /// When this run began, in seconds since 1970.
    let startedAt: Int64

    /// Opens the list; `nil` where none is named.
    init?(_ command: SendCommand, identity: TLSIdentity?, now: Int64) throws {
        let options = command.purge
        guard let path = options.purgeList else { return nil }
        let scopes = try Self.scopes(command, identity)
        self.list = try PurgeList(path: path, isMade: options.purgeRejected)
        self.dead = try PurgeLookup(self.list, in: scopes)
        self.target = options.purgeRejected ? scopes.first : nil
        self.startedAt = now
    }

    /// What the tokens of the batch are of: the topics of `--topic` or the certificate, never none.
    private static func scopes(_ command: SendCommand, _ identity: TLSIdentity?) throws -> [TokenScope] {
        let options = command.purge
        guard let environment = command.endpoint.environment ?? options.purgeEnvironment else {
            throw CommandFailure(.usage, "--purge-list needs --purge-environment production|sandbox.")
        }
        guard options.purgeEnvironment ?? environment == environment else {
            throw CommandFailure(.usage, "--environment and --purge-environment differ.")
        }
        let topics = command.batch.topic.map { [$0] } ?? identity.map { ProviderIdentity($0.certificate).topics } ?? []
        guard !topics.isEmpty else {
            throw CommandFailure(.usage, "The certificate names no topic; --purge-list needs --topic BUNDLE-ID.")
        }
        return topics.map { TokenScope(topic: $0, environment: environment) }
    }

    /// Says of a token whether it is on the list.
    var isDead: TokenPredicate {
        let dead = self.dead
        return { try dead.contains($0) }
    }

    /// Ends the use of the list, which then is one file.
    func close() { self.list.close() }

    /// What to say where rejected tokens did not get to the list.
    ///
    /// - Parameters:
    ///   - command: the batch.
    ///   - identity: the certificate, which may name the topic.
    ///   - count: how many notifications were rejected.
    ///   - acceptedCount: how many were accepted; without any, the gateway's word is in doubt.
    ///   - beganAt: when the first run began: what registered later is alive.
    /// - Returns: `nil` where none were to get there.
    /// - Throws: ``CommandFailure`` where topic or environment are not known.
    static func advice(
        _ command: SendCommand,
        _ identity: TLSIdentity?,
        count: UInt64,
        acceptedCount: UInt64,
        beganAt: Int64?
    ) throws -> String? {
        guard command.purge.purgeRejected, let list = command.purge.purgeList, count > 0 else { return nil }
        let scope = try Self.scopes(command, identity)[0]
        let text = "Rejected, but not yet on the purge list: \(count.counted("notification")). "
        guard acceptedCount > 0 else {
            return text + "Nothing was accepted, so they may be of another environment or app."
        }
        guard let results = command.report.results, results != "-" else {
            return text + "Their tokens are in the results of the earlier run only; --results FILE keeps them."
        }
        return text + "Unless that was done since, put their tokens there:\n"
            + "  apns-legacy purge import '\(results)' --purge-list '\(list)' --include-bad-device-tokens "
            + "--topic \(scope.topic) --environment \(scope.environment.rawValue) "
            + "--failed-at \(beganAt.map { TimeText(seconds: $0).text } ?? "TIME-OF-THAT-RUN")"
    }

    /// A place for rejected tokens until the end; `nil` where they go nowhere.
    func rejections() throws -> SendRejections? {
        self.target == nil ? nil : try SendRejections(beside: self.list.path)
    }

    /// Puts what was rejected on the list, unless the gateway's word is in doubt.
    ///
    /// - Returns: what to say about it.
    func record(
        _ rejections: SendRejections?,
        _ progress: SendProgress,
        _ ending: CommandFailure?
    ) throws -> String? {
        guard let target, let rejections, rejections.count > 0 else { return nil }
        let (count, doubtfulCount) = (rejections.count, rejections.doubtfulCount)
        // Of what ends the sending, only the circuit breaker has this status.
        let isBroken = ending?.status == .dataError
        let isDoubted = doubtfulCount > 0 && (isBroken || progress.outcomeCounts[.accepted] == 0)
        // A device that registered while the batch ran did so after this failure, as far as anyone knows.
        let failedAt = isDoubted ? nil : self.startedAt
        let change = try rejections.record(in: self.list, target, failedAt: failedAt)
        let changed = (change.addedCount + change.updatedCount).counted("rejected token")
        guard isDoubted else { return "\(changed) went on the purge list." }
        let cause = isBroken ? "too many in a row were" : "nothing was accepted"
        let reason = "\(cause), so they may be of another environment or app"
        guard doubtfulCount < count else { return "No rejected token goes on the purge list: \(reason)." }
        return "\(changed) went on the purge list, with 410; the others do not: \(reason)."
    }
}
