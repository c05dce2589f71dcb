// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import OpenSSLTLS

extension ProviderHabits {
    /// What was observed, in lines of a name and a value.
    package var lines: [(name: String, value: String)] {
        let messages = self.messages
        guard !self.connections.isEmpty else {
            return [("connections", "none completed a TLS handshake")] + self.failureLines
        }
        func list(_ values: [String]) -> String {
            var seen: Set<String> = []
            return values.filter { seen.insert($0).inserted }.prefix(4).joined(separator: ", ")
        }
        var lines: [(name: String, value: String)] = [
            ("TLS", list(self.connections.compactMap { $0.tlsVersion.map { "\($0)" } })),
            ("cipher", list(self.connections.compactMap(\.cipherName))),
            ("SNI", list(self.connections.map { $0.serverName ?? "none" })),
            ("certificate", list(self.connections.compactMap { $0.identity.map { "\($0)" } })),
        ]
        if let most = self.connections.map(\.intermediateCount).max(), most > 0 {
            lines.append(("", "with \(most) more of its chain"))
        }
        let refusals = list(self.connections.compactMap(\.refusal))
        if !refusals.isEmpty { lines.append(("", "the gateway would not admit it: \(refusals)")) }
        let sizes = self.connections.map { $0.messages.count + $0.omittedCount }
        let isKept = self.connections.contains { $0.trial == .acceptance && $0.effectAt != nil }
        let kept = isKept ? "; it keeps them open" : ""
        lines.append(("connections", "\(sizes.count); notifications on each: \(Self.range(sizes))\(kept)"))
        if !messages.isEmpty {
            lines.append(("command", list(messages.map { "\($0.command.rawValue)" })))
            lines.append(("identifiers", self.identifiers))
            lines.append(("tokens", "\(Self.range(messages.map(\.tokenByteCount))) bytes"))
            lines.append(("payloads", "\(Self.range(messages.map(\.payloadByteCount))) bytes"))
            let problems = messages.compactMap(\.payloadProblem)
            if !problems.isEmpty {
                let texts = list(problems.map { "\($0)" })
                lines.append(("", "the service would reject \(problems.count) of \(messages.count): \(texts)"))
            }
            lines.append(("priority", list(messages.map { $0.priority.map { "\($0)" } ?? "none" })))
            lines.append(
                (
                    "expiry",
                    list(
                        messages.map { message in
                            message.hasExpired
                                ? "a time before 2001" : message.expiry.map { $0 == 0 ? "0" : "a time" } ?? "none"
                        }
                    )
                )
            )
        }
        let invalid = list(self.connections.flatMap(\.invalid))
        if !invalid.isEmpty { lines.append(("not valid", invalid)) }
        if let errors = self.readsErrors { lines.append(("errors", errors)) }
        lines += self.reactionLines + self.failureLines
        lines.append(("feedback", self.feedbackCount > 0 ? "asked for: \(self.feedbackCount)" : "not asked for"))
        return lines
    }

    private var reactionLines: [(name: String, value: String)] {
        if self.repeatsAccepted {
            let advice = self.hasIdentifiers ? "; let it send other ones, or to other devices" : ""
            return [("after errors", "not known: it repeats accepted notifications, too\(advice)")]
        }
        return ProviderTrial.allCases.flatMap { trial -> [(name: String, value: String)] in
            let responses = self.responses.filter { $0.trial == trial }
            // After the last connection, nothing was awaited.
            let known = responses.filter { $0.reaction != .unknown }
            return Self.counted(known.isEmpty ? responses : known).enumerated().map {
                ($0 == 0 ? "after \(trial.name)" : "", $1)
            }
        }
    }

    private var failureLines: [(name: String, value: String)] {
        let isAll = self.handshakeFailures.count < GatewayDoctor.invalidCountMax
        return Self.counted(self.handshakeFailures.map { ($0, nil) }).enumerated().map {
            ($0 == 0 ? "failed\(isAll ? "" : ", the last")" : "", $1)
        }
    }

    /// Whether identifiers count from 0 or 1, or have another order.
    private var identifiers: String {
        let runs = self.connections.map { $0.messages.map(\.identifier) }.filter { !$0.isEmpty }
        let all = runs.flatMap { $0 }
        guard all.contains(where: { $0 != nil }) else { return "none" }
        let isCounting = runs.allSatisfy { run in
            zip(run, run.dropFirst()).allSatisfy { before, after in before.map { $0 &+ 1 } == after }
        }
        if all.count > 1, Set(all).count == 1 {
            return "always \(all[0] ?? 0), so an error response names none of several"
        }
        guard isCounting else { return "not consecutive" }
        if runs.count == 1 { return "consecutive, from \(runs[0][0] ?? 0)" }
        let least = all.compactMap(\.self).min() ?? 0
        let count = runs.count { $0.first == least }
        if count == runs.count { return "from \(least) on each connection" }
        if count > 1 { return "from \(least) on \(count) of \(runs.count) connections" }
        let starts = runs.map { $0[0] ?? 0 }
        guard zip(starts, starts.dropFirst()).allSatisfy(<) else { return "not consecutive across connections" }
        return "consecutive, from \(starts[0]), across connections"
    }

    private static func range(_ values: [Int]) -> String {
        let (least, most) = (values.min() ?? 0, values.max() ?? 0)
        return least == most ? "\(least)" : "\(least) to \(most)"
    }

    /// Each reaction once, with its number if there are several, and how many notifications were lost.
    private static func counted(_ responses: [Response]) -> [String] {
        Self.counted(responses.map { ($0.text, $0.lostCount) })
    }

    private static func counted(_ texts: [(text: String, lostCount: Int?)]) -> [String] {
        var groups: [(text: String, lostCounts: [Int], count: Int)] = []
        for (text, lostCount) in texts {
            let index = groups.firstIndex { $0.text == text } ?? groups.endIndex
            if index == groups.endIndex { groups.append((text, [], 0)) }
            groups[index].count += 1
            groups[index].lostCounts += lostCount.map { [$0] } ?? []
        }
        return groups.map { group in
            let each = group.count == 1 ? "" : " each"
            let lost = group.lostCounts.isEmpty ? "" : " (\(Self.range(group.lostCounts))\(each)) is lost"
            let times = group.count > 1 ? "\(group.count) times: " : groups.count > 1 ? "once: " : ""
            return times + group.text + lost
        }
    }
}

extension ProviderHabits.Response {
    /// What the provider did, for people.
    fileprivate var text: String {
        let what = self.what
        let lost = self.lostCount == nil ? "" : self.reaction == .part ? ", so the rest" : ", so what followed"
        guard self.reaction != .unknown, self.reaction != .nothing else { return what + lost }
        let seconds =
            (self.delay ?? .zero) < .seconds(1)
            ? "within a second" : "after \((self.delay ?? .zero).components.seconds) s"
        let expiry = self.keepsExpiry ? "" : ", with another expiry"
        let connections = self.connectionCount > 1 ? ", over \(self.connectionCount) connections" : ""
        let doubled = self.trial == .acceptance ? ", although it was accepted" : ""
        return "\(what), \(seconds)\(connections)\(expiry)\(doubled)\(lost)"
    }

    private var what: String {
        let sent =
            switch self.reaction {
            case .unknown: "it has sent nothing since"
            case .nothing: "it sent nothing again"
            case .rest: "it sent again what followed"
            case .all: "it sent again the first one and what followed"
            case .first where self.followingCount > 0: "it sent again only the first one"
            case .first: "it sent the notification again"
            case .part: "it sent again a part of what followed"
            }
        return (self.isMissed ? "it had closed before; " : "") + sent
    }

    /// How many notifications are lost; `nil` for none.
    ///
    /// What a trial did not reach is not, except after a rejection.
    fileprivate var lostCount: Int? {
        guard [.nothing, .part, .first].contains(self.reaction), self.trial != .acceptance,
            !self.isMissed || self.trial == .rejection, self.followingCount > self.repeatedCount
        else { return nil }
        return self.followingCount - self.repeatedCount
    }
}
