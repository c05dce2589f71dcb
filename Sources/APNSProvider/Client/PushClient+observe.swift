// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Logging

#if Tracing
import Tracing
#endif

extension PushClient {
    /// Sends a notification, in a span if there is a tracer, measures the time, and logs the outcome with the logger of
    /// the caller's task.
    func observing(
        _ notification: PushNotification,
        _ send: () async -> DeliveryReport
    ) async -> DeliveryReport {
        let start = self.transport.observer.startTime
        let report = await self.tracing {
            var report = await send()
            // A report that was made without an answer has none.
            if report.apnsID == nil, self.transport.sendsIdentifiers { report.apnsID = notification.apnsID }
            return report
        }
        self.transport.observer.recordLatency(report.outcome, since: start)
        return report
    }

    private func tracing(_ send: () async -> DeliveryReport) async -> DeliveryReport {
        #if Tracing
        if InstrumentationSystem.tracer is NoOpTracer { return await self.logging(send) }
        return await withSpan("apns.legacy.send", ofKind: .client) { span in
            let report = await self.logging(send)
            span.updateAttributes { attributes in
                for (key, value) in self.details(of: report) {
                    if let number = value as? Int { attributes[key] = number } else { attributes[key] = "\(value)" }
                }
            }
            switch report.outcome {
            case .accepted, .suppressed: break
            case .rejected, .indeterminate, .unsent, .invalid:
                span.setStatus(SpanStatus(code: .error, message: "\(report.outcome)"))
            }
            return report
        }
        #else
        return await self.logging(send)
        #endif
    }

    /// The levels are those of the requests of a connection.
    private func logging(_ send: () async -> DeliveryReport) async -> DeliveryReport {
        let report = await send()
        let logger = Logger.current
        let level: Logger.Level = report.outcome == .accepted ? .trace : .debug
        // Without a logger of the task, this one has no label.
        guard level >= logger.logLevel, !logger.label.isEmpty else { return report }
        let details = self.details(of: report).map { ($0.key, Logger.MetadataValue.string("\($0.value)")) }
        logger.log(level: level, "notification settled", metadata: Dictionary(uniqueKeysWithValues: details))
        return report
    }

    /// What spans and log lines contain: neither a token nor a payload.
    private func details(of report: DeliveryReport) -> [(key: String, value: any Sendable)] {
        var details: [(key: String, value: any Sendable)] = [
            (LogKey.endpoint, self.name), (LogKey.transport, self.transport.observer.transportName),
            (LogKey.outcome, report.outcome.name), (LogKey.attempts, report.attempts),
        ]
        if let id = report.apnsID { details.append((LogKey.request, "\(id)")) }
        switch report.outcome {
        case .rejected(.binary(let status)): details.append((LogKey.errorStatus, Int(status.rawValue)))
        case .rejected(.http2(let rejection)):
            details.append((LogKey.answerStatus, rejection.status))
            details.append((LogKey.answerReason, rejection.reason.text))
        case .accepted, .indeterminate, .unsent, .invalid, .suppressed: break
        }
        return details
    }
}
