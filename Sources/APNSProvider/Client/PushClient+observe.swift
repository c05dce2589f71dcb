// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Logging

#if Tracing
import Tracing
#endif

extension PushClient {
    /// Whether there is a tracer, a metrics system that measures times, or a logger of the task that wants to know of
    /// single notifications.
    ///
    /// Asked for each notification, and quick if there is none.
    var isObserved: Bool {
        #if Tracing
        guard InstrumentationSystem.instrument is NoOpInstrument else { return true }
        #endif
        guard !self.transport.measuresTime else { return true }
        let logger = Logger.current
        // Without a logger of the task, this one has no label.
        return logger.logLevel <= .debug && !logger.label.isEmpty
    }

    /// Sends a notification, in a span if there is a tracer, measures the time, and logs the outcome with the logger of
    /// the caller's task.
    func observing(
        _ notification: PushNotification,
        _ send: () async -> DeliveryReport
    ) async -> DeliveryReport {
        let start = self.transport.observer.startTime
        let report = await self.tracing("apns.legacy.send", self.details(of:)) {
            var report = await send()
            // A report that was made without an answer has none.
            if report.apnsID == nil, self.transport.sendsIdentifiers { report.apnsID = notification.apnsID }
            return report
        }
        self.transport.observer.recordLatency(report.outcome, since: start)
        return report
    }

    /// Sends several notifications in one span, and logs how many have each outcome.
    func observingAll(_ send: () async -> [DeliveryOutcome]) async -> [DeliveryOutcome] {
        await self.tracing("apns.legacy.send.array", self.details(of:), send)
    }

    /// What a span and a log line say about what was sent: neither contains a token or a payload.
    private struct Details {
        /// The message of the log line.
        let message: String
        /// What did not succeed; `nil` if nothing failed.
        let failure: String?
        let isAccepted: Bool
        var values: [(key: String, value: any Sendable)]
    }

    private func tracing<Value: Sendable>(
        _ operation: String,
        _ details: (Value) -> Details,
        _ send: () async -> Value
    ) async -> Value {
        #if Tracing
        if InstrumentationSystem.tracer is NoOpTracer { return await self.logging(details, send) }
        return await withSpan(operation, ofKind: .client) { span in
            let value = await self.logging(details, send)
            let details = details(value)
            span.updateAttributes { attributes in
                for (key, value) in details.values {
                    if let number = value as? Int { attributes[key] = number } else { attributes[key] = "\(value)" }
                }
            }
            if let failure = details.failure { span.setStatus(SpanStatus(code: .error, message: failure)) }
            return value
        }
        #else
        return await self.logging(details, send)
        #endif
    }

    /// The levels are those of the requests of a connection.
    private func logging<Value: Sendable>(
        _ details: (Value) -> Details,
        _ send: () async -> Value
    ) async -> Value {
        let value = await send()
        let logger = Logger.current
        // Without a logger of the task, this one has no label.
        guard logger.logLevel <= .debug, !logger.label.isEmpty else { return value }
        let details = details(value)
        let level: Logger.Level = details.isAccepted ? .trace : .debug
        guard level >= logger.logLevel else { return value }
        let metadata = details.values.map { ($0.key, Logger.MetadataValue.string("\($0.value)")) }
        logger.log(level: level, "\(details.message)", metadata: Dictionary(uniqueKeysWithValues: metadata))
        return value
    }

    private var commonValues: [(key: String, value: any Sendable)] {
        [(LogKey.endpoint, self.name), (LogKey.transport, self.transport.observer.transportName)]
    }

    private func details(of report: DeliveryReport) -> Details {
        let outcome = report.outcome
        var details = Details(
            message: "notification settled",
            failure: outcome.kind.isFailure ? "\(outcome)" : nil,
            isAccepted: outcome == .accepted,
            values: self.commonValues
        )
        details.values += [(LogKey.outcome, outcome.name), (LogKey.attempts, report.attempts)]
        if let id = report.apnsID { details.values.append((LogKey.request, "\(id)")) }
        switch outcome {
        case .rejected(.binary(let status)): details.values.append((LogKey.errorStatus, Int(status.rawValue)))
        case .rejected(.http2(let rejection)):
            details.values.append((LogKey.answerStatus, rejection.status))
            details.values.append((LogKey.answerReason, rejection.reason.text))
        case .accepted, .indeterminate, .unsent, .invalid, .suppressed: break
        }
        return details
    }

    private func details(of outcomes: [DeliveryOutcome]) -> Details {
        var counts: [DeliveryOutcome.Kind: Int] = [:]
        for outcome in outcomes { counts[outcome.kind, default: 0] += 1 }
        let failureCount = counts.filter(\.key.isFailure).values.reduce(0, +)
        var details = Details(
            message: "notifications settled",
            failure: failureCount > 0 ? "\(failureCount) of \(outcomes.count) notifications failed" : nil,
            isAccepted: counts[.accepted, default: 0] == outcomes.count,
            values: self.commonValues
        )
        for kind in DeliveryOutcome.Kind.allCases {
            guard let count = counts[kind] else { continue }
            details.values.append((LogKey.count(of: kind), count))
        }
        return details
    }
}

extension DeliveryOutcome.Kind {
    /// Whether a notification was not accepted although it should be sent.
    fileprivate var isFailure: Bool {
        switch self {
        case .accepted, .suppressed: false
        case .rejected, .indeterminate, .unsent, .invalid: true
        }
    }
}
