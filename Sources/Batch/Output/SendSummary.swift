// SPDX-License-Identifier: Apache-2.0

import APNSWire
package import APNSJSON

/// The outcome of a batch, as text and as JSON.
package struct SendSummary {
    package var outcomeCounts: OutcomeCounts
    package var seconds: Double
    package var isResumed = false
    package var isInterrupted = false
    /// The number of notifications that a dry run would send; `nil` if it was none.
    package var readyCount: UInt64?
    /// Whether the batch was compared with a purge list.
    package var hasPurgeList = false

    /// Creates the summary of a batch.
    package init(outcomeCounts: OutcomeCounts, seconds: Double) {
        self.outcomeCounts = outcomeCounts
        self.seconds = seconds
    }

    /// The lines of text.
    package var text: String {
        if self.isResumed { return self.text(place: "in all runs of this journal") }
        let rate = self.seconds > 0 ? Int((Double(self.outcomeCounts.total) / self.seconds).rounded()) : 0
        let speed = self.outcomeCounts.total < 1000 ? "" : ", \(rate.grouped) a second"
        return self.text(place: "in \(SendSummary.seconds(self.seconds))\(speed)")
    }

    /// The same lines, with another phrase after the number of notifications.
    package func text(place: String) -> String {
        var lines = ["\(self.outcomeCounts.total.counted("notification")) \(place):"]
        for outcome in DeliveryOutcome.Kind.allCases where self.outcomeCounts[outcome] > 0 || outcome == .accepted {
            lines.append("  \(self.outcomeCounts[outcome].padded) \(outcome.name)\(self.remark(outcome))")
        }
        if self.outcomeCounts.possibleDuplicateCount > 0 {
            lines.append("  \(self.outcomeCounts.possibleDuplicateCount.padded) of these may have arrived twice")
        }
        return lines.joined(separator: "\n")
    }

    private func remark(_ outcome: DeliveryOutcome.Kind) -> String {
        switch outcome {
        case .accepted: return ""
        case .rejected:
            let statuses = self.outcomeCounts.statuses.sorted { $0.key < $1.key }
            guard statuses.count > 1 else { return statuses.first.map { " (\(Self.status($0.key)))" } ?? "" }
            return " (" + statuses.map { "\($0.value.grouped) \(Self.status($0.key))" }.joined(separator: ", ") + ")"
        case .indeterminate: return " (sent, but the connection failed before an outcome came; may have arrived)"
        case .unsent: return " (safe to send again)"
        case .invalid: return " (not sent: the line has an error)"
        case .suppressed:
            return self.hasPurgeList
                ? " (not sent: the token is on the purge list, or was rejected earlier in this run)"
                : " (not sent: the token was rejected earlier in this run)"
        }
    }

    /// A status with its name, as in `status 8: invalid token`.
    private static func status(_ code: UInt16) -> String {
        "status \(code)" + (Rejection.statusText(code).map { ": \($0)" } ?? "")
    }

    /// One JSON object.
    package var json: JSONObject {
        let statuses = self.outcomeCounts.statuses.sorted { $0.key < $1.key }
        return JSONObject { object in
            for kind in DeliveryOutcome.Kind.allCases { object.add("\(kind.name)", self.outcomeCounts[kind]) }
            object.add("ready", self.readyCount)
            object.add("total", self.outcomeCounts.total + (self.readyCount ?? 0))
            object.add("possibleDuplicates", self.outcomeCounts.possibleDuplicateCount)
            object.add("rejectedByStatus", JSONObject { for each in statuses { $0.add("\(each.key)", each.value) } })
            let texts = JSONObject { for each in statuses { $0.add("\(each.key)", Rejection.statusText(each.key)) } }
            object.add("statusTexts", texts)
            object.add("seconds", json: "\(Double(Int(self.seconds * 1000)) / 1000)")
            object.add("interrupted", self.isInterrupted)
        }
    }

    private static func seconds(_ seconds: Double) -> String {
        seconds < 10 ? "\(Double(Int(seconds * 100)) / 100) s" : "\(Int(seconds)) s"
    }
}
