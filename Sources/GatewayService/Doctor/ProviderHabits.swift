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
        /// From the effect until it sent again, or sent anything.
        package var delay: Duration?
        /// Over how many connections it sent again.
        package var connectionCount = 0
        /// Whether what it sent again had the same expiry.
        package var keepsExpiry = true
    }

    private let connections: [ObservedConnection]
    private let feedbackCount: Int

    /// Describes the connections, in the order in which they opened.
    package init(_ connections: [ObservedConnection], feedbackCount: Int) {
        self.connections = connections
        self.feedbackCount = feedbackCount
    }

    // MARK: Reactions

    /// The reactions to all trials, in order.
    package var responses: [Response] {
        self.connections.indices.compactMap { index in
            let connection = self.connections[index]
            guard connection.trial != .acceptance, let effectAt = connection.effectAt else { return nil }
            // Apart from what it would send anyway.
            let later = self.connections[(index + 1)...].prefix(Self.laterCountMax)
                .filter { !$0.messages.isEmpty }
            return Self.response(connection, effectAt, Array(later))
        }
    }

    /// How many later connections count as a reaction.
    private static let laterCountMax = 4

    private static func response(
        _ connection: ObservedConnection,
        _ effectAt: Duration,
        _ later: [ObservedConnection]
    ) -> Response {
        let following = connection.messages.dropFirst()
        var response = Response(trial: connection.trial, reaction: .unknown, followingCount: following.count)
        guard let first = connection.messages.first, let next = later.first?.messages.first else { return response }
        let again = later.map { each in
            each.messages.filter { message in
                connection.messages.contains { $0.content == message.content }
            }
        }
        let contents = Set(again.joined().map(\.content))
        let followingAgain = following.filter { contents.contains($0.content) }.count
        response.delay = (again.joined().first ?? next).at - effectAt
        response.connectionCount = again.count { !$0.isEmpty }
        response.keepsExpiry = again.joined().allSatisfy { message in
            connection.messages.contains { $0.content == message.content && $0.expiry == message.expiry }
        }
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

    // MARK: Settings

    /// Whether error responses must not be sent to the provider (`rejections: ignore`), and why; `nil` if no trial
    /// showed it.
    package var ignoresRejections: (isSet: Bool, reason: String)? {
        let known = self.responses.filter { $0.trial == .rejection && $0.reaction != .unknown }
        if known.contains(where: { [.all, .first].contains($0.reaction) }) {
            return (true, "it sends a rejected notification again, and would never get past a dead token")
        }
        let telling = known.filter { $0.followingCount > 0 }
        if telling.contains(where: { $0.reaction == .rest || $0.reaction == .part }) {
            return (false, "after an error response, it sends again what followed")
        }
        guard telling.isEmpty else { return (true, "after an error response, what followed is lost") }
        guard !known.isEmpty else { return nil }
        return (false, "nothing followed its rejected notifications, so nothing is lost")
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
                provider.append("    rejectedToFeedback: true  # it reads the feedback list")
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

    // MARK: Text

    private var messages: [ObservedConnection.Message] { self.connections.flatMap(\.messages) }

    /// What was observed, in lines of a name and a value.
    package var lines: [(name: String, value: String)] {
        let messages = self.messages
        guard !self.connections.isEmpty else { return [("connections", "none completed a TLS handshake")] }
        func list(_ values: [String]) -> String {
            var seen: Set<String> = []
            return values.filter { seen.insert($0).inserted }.prefix(4).joined(separator: ", ")
        }
        var lines: [(name: String, value: String)] = [
            ("TLS", list(self.connections.compactMap { $0.tlsVersion.map { "\($0)" } })),
            ("cipher", list(self.connections.compactMap(\.cipherName))),
            ("certificate", list(self.connections.compactMap { $0.identity.map { "\($0)" } })),
        ]
        let refusals = list(self.connections.compactMap(\.refusal))
        if !refusals.isEmpty { lines.append(("", "the gateway would not admit it: \(refusals)")) }
        let sizes = self.connections.map { $0.messages.count + $0.omittedCount }
        lines.append(("connections", "\(sizes.count); notifications on each: \(Self.range(sizes))"))
        if !messages.isEmpty {
            lines.append(("command", list(messages.map { "\($0.command.rawValue)" })))
            lines.append(("identifiers", self.identifiers))
            lines.append(("tokens", "\(Self.range(messages.map(\.tokenByteCount))) bytes"))
            lines.append(("payloads", "\(Self.range(messages.map(\.payloadByteCount))) bytes"))
            lines.append(("priority", list(messages.map { $0.priority.map { "\($0)" } ?? "none" })))
            lines.append(("expiry", list(messages.map { $0.expiry.map { $0 == 0 ? "0" : "a time" } ?? "none" })))
        }
        let invalid = list(self.connections.flatMap(\.invalid))
        if !invalid.isEmpty { lines.append(("not valid", invalid)) }
        for trial in ProviderTrial.allCases.dropFirst() {
            let responses = self.responses.filter { $0.trial == trial }
            guard !responses.isEmpty else { continue }
            let texts = responses.map(\.text)
            for (index, text) in Self.counted(texts).enumerated() {
                lines.append((index == 0 ? "after \(trial == .shutdown ? "status 10" : trial.rawValue)" : "", text))
            }
        }
        lines.append(("feedback", self.feedbackCount > 0 ? "lists read: \(self.feedbackCount)" : "not read"))
        return lines
    }

    /// Whether identifiers count from 0 or 1, or have another order.
    private var identifiers: String {
        let runs = self.connections.map { $0.messages.map(\.identifier) }.filter { !$0.isEmpty }
        let all = runs.flatMap { $0 }
        guard all.contains(where: { $0 != nil }) else { return "none" }
        let isCounting = runs.allSatisfy { run in
            zip(run, run.dropFirst()).allSatisfy { before, after in before.map { $0 &+ 1 } == after }
        }
        let starts = Set(runs.map(\.first))
        if all.count > 1, Set(all).count == 1 { return "always \(all[0] ?? 0)" }
        guard isCounting else { return "not consecutive" }
        if starts == [0] { return "from 0 on each connection" }
        if starts == [1] { return "from 1 on each connection" }
        return "consecutive, from \(runs[0][0] ?? 0), across connections"
    }

    private static func range(_ values: [Int]) -> String {
        let (least, most) = (values.min() ?? 0, values.max() ?? 0)
        return least == most ? "\(least)" : "\(least) to \(most)"
    }

    /// Each text once, with its number if there are several.
    private static func counted(_ texts: [String]) -> [String] {
        var counts: [(text: String, count: Int)] = []
        for text in texts {
            if let index = counts.firstIndex(where: { $0.text == text }) {
                counts[index].count += 1
            } else {
                counts.append((text, 1))
            }
        }
        return counts.map { $0.count == 1 ? $0.text : "\($0.count) times: \($0.text)" }
    }
}

extension ProviderHabits.Response {
    /// What the provider did, for people.
    fileprivate var text: String {
        let what =
            switch self.reaction {
            case .unknown: "it has sent nothing since"
            case .nothing where self.followingCount > 0:
                "it sent nothing again, so what followed (\(self.followingCount)) is lost"
            case .nothing: "it sent nothing again"
            case .rest: "it sent again what followed"
            case .all: "it sent again the first one and what followed"
            case .first where self.followingCount > 0: "it sent again only the first one"
            case .first: "it sent the notification again"
            case .part: "it sent again a part of what followed"
            }
        guard self.reaction != .unknown, self.reaction != .nothing else { return what }
        let seconds =
            (self.delay ?? .zero) < .seconds(1)
            ? "within a second" : "after \((self.delay ?? .zero).components.seconds) s"
        let expiry = self.keepsExpiry ? "" : ", with another expiry"
        let connections = self.connectionCount > 1 ? ", over \(self.connectionCount) connections" : ""
        return "\(what), \(seconds)\(connections)\(expiry)"
    }
}
