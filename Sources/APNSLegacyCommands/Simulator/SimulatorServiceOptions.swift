// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSSimulator
import APNSWire
import ArgumentParser
import OpenSSLTLS

/// Restrictions that the simulator's services do not have by default.
struct SimulatorServiceOptions: ParsableArguments, Sendable {
    /// The error responses that contain the identifier 0.
    enum ZeroIdentifier: String, ExpressibleByArgument, CaseIterable {
        case never
        case once
        case always

        var count: Int {
            switch self {
            case .never: 0
            case .once: 1
            case .always: .max
            }
        }
    }

    /// The answer to unknown tokens.
    enum UnknownTokens: String, ExpressibleByArgument, CaseIterable {
        case accept
        case refuse
    }

    /// The maximum payload of commands 0 and 1 in Apple's original guide, in bytes.
    private static let strictPayloadByteCountMax = 256

    @Option(
        help: .value(
            "action",
            "What to do with unknown tokens of 32 bytes or more. (default: accept, but refuse with --device)"
        )
    )
    var unknownTokens: UnknownTokens?

    @Flag(help: "Refuse payloads of more than 256 bytes in commands 0 and 1, as the documentation says.")
    var strictPayloadLimit = false

    @Option(
        help: .value(
            "count",
            "After how many failed notifications for a deleted app feedback lists its token, from 1 to 1000."
        )
    )
    var feedbackAfter = 1

    @Flag(help: "Refuse priorities other than 5 and 10 with status 255, as the documentation has no others.")
    var strictPriority = false

    @Option(help: .value("when", "Which error responses of the gateway have the identifier 0."))
    var zeroIdentifier = ZeroIdentifier.never

    @Option(
        help: .value(
            "rate",
            "How many connections the gateway accepts from one certificate, such as 20/1m; others are closed after "
                + "the handshake. (default: any number)"
        )
    )
    var connectionLimit: RateArgument?

    @Option(help: .value("duration", "How long connections are refused then; each attempt starts it again."))
    var connectionBlock = DurationArgument(seconds: 0)

    @Option(
        help: .value(
            "rate",
            "How many HTTP/2 requests a device token may have, such as 100/1s; others get TooManyRequests. "
                + "(default: any number)"
        )
    )
    var deviceLimit: RateArgument?

    @Option(
        name: .customLong("revoked"),
        help: .value("fingerprint", "A revoked certificate, by its SHA-256 digest. Repeat for each.")
    )
    var revokedFingerprints: [String] = []

    @Option(help: .value("duration", "How long an HTTP/2 connection may be idle before it is closed with IdleTimeout."))
    var idleTimeout = DurationArgument(seconds: 3600)

    @Option(
        help: .value(
            "duration",
            "The least time between two renewals of a provider token; Apple's service has 20m. (default: any)"
        )
    )
    var tokenRenewalInterval: DurationArgument?

    @Flag(help: "Refuse provider tokens with a DER signature; RFC 7518 requires 64 bytes.")
    var strictTokenSignature = false

    @Flag(help: "Allow one HTTP/2 stream until a provider token succeeds, and after a rejection.")
    var limitStreams = false

    @Flag(help: "Refuse HTTP/2 clients that do not negotiate h2 by ALPN.")
    var requireAlpn = false

    func validate() throws {
        for text in self.revokedFingerprints {
            let digits = text.utf8.filter { $0 != UInt8(ascii: ":") }
            guard digits.count == 64, digits.allSatisfy({ Hexadecimal.value($0) < 16 }) else {
                throw ValidationError(
                    "invalid --revoked; expected a SHA-256 digest of 64 hexadecimal digits, with colons or not"
                )
            }
        }
        guard self.connectionLimit != nil || self.connectionBlock.duration == .zero else {
            throw ValidationError("--connection-block needs --connection-limit")
        }
        try self.require(1...1000, "--feedback-after", self.feedbackAfter)
        guard self.idleTimeout.duration > .zero else { throw ValidationError("--idle-timeout must be above 0") }
    }

    /// Applies the options to a configuration.
    func apply(to configuration: inout SimulatorConfiguration) {
        if self.strictPayloadLimit {
            configuration.listener.rules.payloadByteCountMaxEnhanced = Self.strictPayloadByteCountMax
        }
        if self.strictPriority { configuration.listener.rules.priorityStatus = .unknown }
        configuration.feedbackFailureCountMin = self.feedbackAfter
        configuration.zeroIdentifierCount = self.zeroIdentifier.count
        configuration.connectionRateLimit = self.connectionLimit?.limit
        configuration.connectionRateLimit?.blockDuration = self.connectionBlock.duration
        configuration.deviceRateLimit = self.deviceLimit?.limit
        configuration.revokedFingerprints = Set(self.revokedFingerprints)
        configuration.http2.idleTimeout = self.idleTimeout.duration
        configuration.http2.tokenRenewalIntervalMin = self.tokenRenewalInterval?.duration
        configuration.http2.requiresRawSignature = self.strictTokenSignature
        configuration.http2.limitsStreamsUntilSuccess = self.limitStreams
        configuration.http2.limitsStreamsAfterRejection = self.limitStreams
        configuration.http2.requiresApplicationProtocol = self.requireAlpn
    }
}

/// A number of times in a period, such as `20/1m`.
struct RateArgument: ExplainedArgument {
    static let form = "a number, a slash and a duration, such as 20/1m"

    let limit: RateLimit

    init?(argument: String) {
        let parts = argument.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let count = Int(parts[0]), count > 0,
            let time = DurationArgument(argument: String(parts[1])), time.duration > .zero
        else { return nil }
        self.limit = RateLimit(countMax: count, in: time.duration)
    }
}
