// SPDX-License-Identifier: Apache-2.0

import Foundation

extension Int {
    /// Whether the gateways of ``ClientKillTests`` reject a notification with this number.
    var isRefused: Bool { self % 50 == 7 }
}

/// The records of the processes that sent notifications, and of the gateway that accepted them.
struct DeliveryAccounts {
    private struct Told {
        var run: pid_t
        var outcome: Substring
        var isPossibleDuplicate: Bool
    }

    /// The processes that sent it.
    private var sent: [Int: [pid_t]] = [:]
    private var told: [Int: [Told]] = [:]
    /// How often it was accepted.
    private var taken: [Int: Int] = [:]

    /// - Parameters:
    ///   - journal: lines of the snippet SendFromAnOutbox; a line that a kill truncated is ignored.
    ///   - taken: the numbers that the gateway accepted.
    init(journal: String, taken: [Int]) {
        var run: pid_t = 0
        for line in journal.split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.count > 1, let number = Int(words[1]) else { continue }
            switch words[0] {
            case "run": run = pid_t(number)
            case "sent": self.sent[number, default: []].append(run)
            case "told" where words.count == 4 && ["once", "twice"].contains(words[3]):
                let told = Told(run: run, outcome: words[2], isPossibleDuplicate: words[3] == "twice")
                self.told[number, default: []].append(told)
            default: break
            }
        }
        for number in taken { self.taken[number, default: 0] += 1 }
    }

    /// Describes each difference; all numbers below `count` were sent.
    func findings(count: Int, killed: Set<pid_t>) -> [String] {
        self.findings(numbers: Array(0..<count), killed: killed)
    }

    /// Describes each difference.
    ///
    /// - Parameters:
    ///   - numbers: the numbers of all notifications.
    ///   - killed: the processes that could not report all outcomes.
    /// - Returns: a sentence for each finding.
    func findings(numbers: [Int], killed: Set<pid_t>) -> [String] {
        var findings = numbers.flatMap { self.findings($0, killed) }
        for number in self.taken.keys.sorted() where self.sent[number] == nil {
            findings.append("\(number) was taken, and not sent")
        }
        return findings
    }

    private func findings(_ number: Int, _ killed: Set<pid_t>) -> [String] {
        var findings: [String] = []
        let told = self.told[number] ?? []
        // A provider that received the outcome does not send it again, so there is one outcome over all processes.
        if told.count != 1 { findings.append("\(number) has \(told.count) outcomes") }
        var unreported = (self.sent[number] ?? []).map { $0 }
        for one in told { if let index = unreported.firstIndex(of: one.run) { unreported.remove(at: index) } }
        for run in unreported where !killed.contains(run) {
            findings.append("\(number) has no outcome in run \(run), which was not killed")
        }
        let count = self.taken[number, default: 0]
        guard told.count == 1, let one = told.first else { return findings }
        let isRefused = number.isRefused
        switch one.outcome {
        case "accepted":
            if isRefused { findings.append("\(number) was accepted, and is to be rejected") }
            if count == 0 { findings.append("\(number) was accepted, and not taken") }
        case "rejected":
            if !isRefused { findings.append("\(number) was rejected, and is to be accepted") }
            if count > 0 { findings.append("\(number) was rejected, and taken") }
        case "unsent": if count > 0, unreported.isEmpty { findings.append("\(number) was unsent, and taken") }
        case "indeterminate": break
        default: findings.append("\(number) was \(one.outcome)")
        }
        if count > 1, !one.isPossibleDuplicate, unreported.isEmpty {
            findings.append("\(number) was taken \(count) times, which was not said")
        }
        return findings
    }
}
