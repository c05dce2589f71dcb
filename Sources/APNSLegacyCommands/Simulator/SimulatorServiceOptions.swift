// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSSimulator
import APNSWire
import ArgumentParser
import OpenSSLTLS

/// Restrictions that the simulator's services do not have by default.
struct SimulatorServiceOptions: ParsableArguments, Sendable {
    /// Which error responses carry the identifier 0.
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

    /// What becomes of tokens that nobody has.
    enum UnknownTokens: String, ExpressibleByArgument, CaseIterable {
        case accept
        case refuse
    }

    /// The longest payload of commands 0 and 1 in the letter of the guide, in bytes.
    private static let strictPayloadByteCountMax = 256

    @Option(
        help: .value(
            "accept|refuse",
            "What becomes of notifications for tokens of 32 bytes or more that no device has. By default they are "
                + "accepted, and refused where there is a --device."
        )
    )
    var unknownTokens: UnknownTokens?

    @Flag(help: "Refuse payloads of more than 256 bytes in commands 0 and 1, as the protocol's documentation says.")
    var strictPayloadLimit = false

    @Option(help: .value("never|once|always", "Which error responses of the gateway carry the identifier 0."))
    var zeroIdentifier = ZeroIdentifier.never

    @Option(
        help: .value(
            "count/time",
            "How many connections with one certificate the gateway takes in a time, such as 20/1m; more are closed "
                + "after the handshake. By default any number."
        )
    )
    var connectionLimit: RateArgument?

    @Option(help: .value("time", "How long no further connection is taken then; each attempt begins it anew."))
    var connectionBlock = DurationArgument(seconds: 0)

    @Option(
        help: .value(
            "count/time",
            "How many requests over HTTP/2 one device token may have in a time, such as 100/1s; more are answered with "
                + "TooManyRequests. By default any number."
        )
    )
    var deviceLimit: RateArgument?

    @Option(
        name: .customLong("revoked"),
        help: .value("fingerprint", "A certificate that is revoked, by its SHA-256 digest; once for each.")
    )
    var revokedFingerprints: [String] = []

    @Option(
        help: .value(
            "time",
            "How long a connection over HTTP/2 may be idle before it is told to go away with the reason IdleTimeout."
        )
    )
    var idleTimeout = DurationArgument(seconds: 3600)

    @Option(
        help: .value(
            "time",
            "The least time between two renewals of a provider token, which is 20m at Apple's service. By default any."
        )
    )
    var tokenRenewalInterval: DurationArgument?

    @Flag(help: "Allow one stream over HTTP/2 until the first success with a provider token, and after a rejection.")
    var limitStreams = false

    @Flag(help: "Refuse clients over HTTP/2 that do not negotiate h2 by ALPN.")
    var requireAlpn = false

    func validate() throws {
        for text in self.revokedFingerprints {
            let digits = text.utf8.filter { $0 != UInt8(ascii: ":") }
            guard digits.count == 64, digits.allSatisfy({ Hexadecimal.value($0) < 16 }) else {
                throw ValidationError("--revoked takes a SHA-256 digest: 64 hexadecimal digits, also with colons.")
            }
        }
        guard self.connectionLimit != nil || self.connectionBlock.duration == .zero else {
            throw ValidationError("--connection-block needs --connection-limit.")
        }
        guard self.idleTimeout.duration > .zero else { throw ValidationError("--idle-timeout is above 0.") }
    }

    /// Changes what the simulator is made of.
    func apply(to configuration: inout SimulatorConfiguration) {
        if self.strictPayloadLimit {
            configuration.listener.rules.payloadByteCountMaxEnhanced = Self.strictPayloadByteCountMax
        }
        configuration.zeroIdentifierCount = self.zeroIdentifier.count
        configuration.connectionRateLimit = self.connectionLimit?.limit
        configuration.connectionRateLimit?.blockDuration = self.connectionBlock.duration
        configuration.deviceRateLimit = self.deviceLimit?.limit
        configuration.revokedFingerprints = Set(self.revokedFingerprints)
        configuration.push.idleTimeout = self.idleTimeout.duration
        configuration.push.tokenRenewalIntervalMin = self.tokenRenewalInterval?.duration
        configuration.push.limitsStreamsUntilSuccess = self.limitStreams
        configuration.push.limitsStreamsAfterRejection = self.limitStreams
        configuration.push.requiresApplicationProtocol = self.requireAlpn
    }
}

/// A number of times and in which time on the command line, such as `20/1m`.
struct RateArgument: ExpressibleByArgument, Sendable {
    let limit: RateLimit

    init?(argument: String) {
        let parts = argument.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let count = Int(parts[0]), count > 0,
            let time = DurationArgument(argument: String(parts[1])), time.duration > .zero
        else { return nil }
        self.limit = RateLimit(countMax: count, in: time.duration)
    }
}
