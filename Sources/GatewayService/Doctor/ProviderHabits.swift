// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import OpenSSLTLS

/// What was observed of a provider, and the settings that suit it.
package struct ProviderHabits: Sendable {
    /// What a provider did after a trial.
    package enum Reaction: Hashable, Sendable {
        /// It has not sent anything since.
        case unknown
        /// It has sent other notifications only.
        case nothing
        /// It sent again what followed the first notification, and not that one.
        case rest
        /// It sent again the first notification and what followed.
        case all
        /// It sent again the first notification, which nothing had followed.
        case first
        /// It sent again a part of what followed.
        case part
    }

    /// The reaction to one trial.
    package struct Response: Hashable, Sendable {
        package var trial: ProviderTrial
        package var reaction: Reaction
        /// How many notifications had followed the first one.
        package var followingCount: Int
        /// How many of those came again.
        package var repeatedCount = 0
        /// From the effect, or from the end of the connection after silence, until it sent again, or sent anything.
        package var delay: Duration?
        /// Over how many connections it sent again.
        package var connectionCount = 0
        /// Whether what it sent again had the same expiry.
        package var keepsExpiry = true
        /// Whether the provider had closed the connection before the trial took effect.
        package var isMissed = false
        /// Whether the trial took effect late.
        package var isLate = false
    }

    let connections: [ObservedConnection]
    let feedbackCount: Int
    /// Why handshakes failed.
    let handshakeFailures: [String]
    /// The reactions to all trials, in order.
    package let responses: [Response]

    /// Describes the connections, in the order in which they opened.
    package init(_ connections: [ObservedConnection], feedbackCount: Int, handshakeFailures: [String] = []) {
        self.connections = connections
        self.feedbackCount = feedbackCount
        self.handshakeFailures = handshakeFailures
        self.responses = connections.compactMap { connection in
            guard !connection.messages.isEmpty, let effectAt = connection.effectAt else { return nil }
            return Self.response(connection, effectAt, Self.sent(after: connection, connections))
        }
    }

    var messages: [ObservedConnection.Message] { self.connections.flatMap(\.messages) }

    // MARK: Reactions

    /// What came on other connections after a trial, which may have been open before.
    private static func sent(
        after connection: ObservedConnection,
        _ connections: [ObservedConnection]
    ) -> [[ObservedConnection.Message]] {
        let end = [connection.effectAt, connection.closedAt].compactMap(\.self).min() ?? .zero
        return connections.filter { $0.number != connection.number }
            .map { other in other.messages.filter { $0.at >= end } }.filter { !$0.isEmpty }
            .sorted { $0[0].at < $1[0].at }
    }

    private static func response(
        _ connection: ObservedConnection,
        _ effectAt: Duration,
        _ later: [[ObservedConnection.Message]]
    ) -> Response {
        let following = connection.messages.dropFirst()
        var response = Response(trial: connection.trial, reaction: .unknown, followingCount: following.count)
        response.isMissed = connection.isMissed
        response.isLate = connection.isLate
        guard let first = connection.messages.first, let next = later.first?.first else { return response }
        let expiries = Dictionary(grouping: connection.messages, by: \.content).mapValues { Set($0.map(\.expiry)) }
        let again = later.map { messages in messages.filter { expiries[$0.content] != nil } }
        let contents = Set(again.joined().map(\.content))
        let followingAgain = following.filter { contents.contains($0.content) }.count
        response.repeatedCount = followingAgain
        let from = connection.trial == .silence ? connection.closedAt ?? effectAt : effectAt
        response.delay = max(.zero, (again.joined().first ?? next).at - from)
        // One that is sent a second time is the reaction to a later trial.
        var seen: Set<Int> = []
        response.connectionCount = again.count { messages in
            let countBefore = seen.count
            seen.formUnion(messages.map(\.content))
            return seen.count > countBefore
        }
        response.keepsExpiry = again.joined().allSatisfy { expiries[$0.content]?.contains($0.expiry) == true }
        response.reaction =
            switch (contents.contains(first.content), followingAgain) {
            case (false, 0): .nothing
            case (true, 0): .first
            case (true, following.count): .all
            case (false, following.count): .rest
            default: .part
            }
        return response
    }

    /// Whether the provider repeats notifications that were accepted, so that nothing shows what it sends again because
    /// of an error.
    package var repeatsAccepted: Bool {
        let accepted = self.connections.filter { $0.trial == .acceptance && !$0.messages.isEmpty }
        var (count, repeatedCount) = (0, 0)
        for connection in accepted {
            var contents: Set<Int> = []
            repeatedCount += connection.messages.count { !contents.insert($0.content).inserted }
            let later =
                connection.wasLeft ? Self.sent(after: connection, self.connections).flatMap { $0.map(\.content) } : []
            repeatedCount += contents.intersection(later).count
            count += connection.messages.count
        }
        return repeatedCount > 0 && repeatedCount * 2 >= count
    }

    // MARK: Errors

    /// How soon a provider that reads error responses closes the connection, or one that always does.
    private static let closeTimeMax = Duration.seconds(1)

    /// Whether an error response can name a notification.
    var hasIdentifiers: Bool { self.messages.contains { $0.identifier != nil } }

    /// Whether the provider reads error responses; `nil` if no trial showed it.
    var readsErrors: String? {
        guard self.hasIdentifiers else {
            return self.messages.isEmpty ? nil : "none, since command 0 has no identifiers"
        }
        // After status 10, nothing is read, so it is not known when the provider closes.
        let tried = self.connections.filter { $0.trial == .rejection && $0.effectAt != nil }
        guard !tried.isEmpty else { return nil }
        if !self.repeatsAccepted, self.responses.contains(where: { $0.trial == .rejection && $0.reaction == .rest }) {
            return "read: it sent again what followed the rejected one"
        }
        let open = tried.filter { !$0.isMissed }
        guard !open.isEmpty else { return "not known: it closed each connection before one came" }
        let closed = open.filter { connection in
            guard let closedAt = connection.closedAt, let effectAt = connection.effectAt else { return false }
            return closedAt - effectAt < Self.closeTimeMax
        }
        if closed.isEmpty { return "not read, it seems: it kept the connection open after one" }
        let times = self.connections.filter { $0.trial == .acceptance && $0.wasLeft && !$0.messages.isEmpty }
            .map { ($0.closedAt ?? .zero) - $0.openedAt }
        guard closed.count == open.count, times.allSatisfy({ $0 > Self.closeTimeMax * 2 }) else {
            return "not known: it closes connections anyway"
        }
        return "read, it seems: it closed the connection within a second of one"
    }

    /// Why the provider cannot work, or what was not seen; `nil` if nothing is missing.
    package var problem: String? {
        let failure = self.handshakeFailures.last
        if self.connections.isEmpty {
            return failure.map { "It cannot connect: \($0)." }
                ?? "Nothing connected. Check that the provider runs, its hosts file, and the address and ports."
        }
        if self.messages.isEmpty {
            if let invalid = self.connections.flatMap(\.invalid).last {
                return "None of its notifications is valid: \(invalid)."
            }
            return
                "It sent no notification. If it reports an error of TLS, it does not trust the gateway: let it trust "
                + "the certificate of its authority, or do not let it verify."
        }
        if let last = self.messages.last?.payloadProblem, self.messages.allSatisfy({ $0.payloadProblem != nil }) {
            return "None of its payloads is valid, and the service would reject each: \(last)."
        }
        guard self.ignoresRejections == nil else { return nil }
        guard self.connections.last?.effectAt == nil else {
            return
                "It did not connect again after its connection was closed. If it never does, restart it for each of "
                + "the next trials while this runs, and whenever the gateway has closed its connection."
        }
        return "What it does after a rejection was not seen, so this says nothing about rejections. Let it send longer."
    }

    // MARK: Settings

    /// Whether error responses must not be sent to the provider (`rejections: ignore`), and why; `nil` if no trial
    /// showed it.
    package var ignoresRejections: (isSet: Bool, reason: String)? {
        let known = self.responses.filter { $0.trial == .rejection && $0.reaction != .unknown }
        if !known.isEmpty, self.repeatsAccepted {
            guard self.hasIdentifiers else {
                return (true, "command 0 has no identifiers, so an error response names none")
            }
            return (true, "it repeats notifications anyway, which is not to be taken for an answer to an error")
        }
        if known.contains(where: { [.all, .first].contains($0.reaction) }) {
            return (true, "it sends a rejected notification again, and would never get past a dead token")
        }
        let telling = known.filter { $0.followingCount > 0 }
        if !known.isEmpty, known.allSatisfy(\.isMissed) {
            return (true, "it closes each connection without waiting for an error response")
        }
        let lossy = telling.filter { $0.repeatedCount < $0.followingCount }
        guard lossy.isEmpty else {
            let late = lossy.allSatisfy({ $0.isMissed || $0.isLate }) ? " that comes late" : ""
            return (true, "after an error response\(late), what followed is lost")
        }
        guard telling.allSatisfy(\.keepsExpiry) else {
            return (true, "what it sends again has another expiry, so some would arrive twice")
        }
        guard telling.isEmpty else { return (false, "after an error response, it sends again what followed") }
        guard !known.isEmpty else { return nil }
        // One that waits less long for an error response than the service takes for it loses what follows.
        let late = known.contains { $0.isLate && !$0.isMissed }
        let detail = late ? ", even when the answer came late" : "; what it does if the answer is late was not seen"
        return (false, "nothing followed its rejected notifications\(detail)")
    }

    /// The lines of the configuration that suit the provider, and why.
    package func settings(provider name: String) -> [String] {
        var listen: [String] = []
        if let version = self.connections.compactMap(\.tlsVersion).min(), version < .tls1_2 {
            listen.append("  tlsMinimum: \"\(version == .tls1_0 ? "1.0" : "1.1")\"")
        }
        var provider: [String] = []
        if let rejections = self.ignoresRejections {
            provider.append("    rejections: \(rejections.isSet ? "ignore" : "report")  # \(rejections.reason)")
            if rejections.isSet, self.feedbackCount > 0 {
                provider.append("    rejectedToFeedback: true  # it asks for the feedback list")
            }
        }
        let byteCountMax = self.messages.map(\.payloadByteCount).max() ?? 0
        if byteCountMax > WireLimits.payloadByteCountMax {
            provider.append(
                "    payloadLimit: \(WireLimits.payloadByteCountMaxHTTP2)  # the longest had \(byteCountMax)"
            )
        }
        if let fingerprint = self.connections.last(where: { $0.refusal != nil })?.identity?.fingerprint {
            provider.append("    clients:  # besides authority")
            provider.append("      pins:")
            provider.append("        - fingerprint: \"\(fingerprint)\"")
        }
        return (listen.isEmpty ? [] : ["listen:"] + listen)
            + (provider.isEmpty ? [] : ["providers:", "  - name: \(name)"] + provider)
    }
}
