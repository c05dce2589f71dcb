// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSSimulator
import APNSWire
import HTTPTypes
import HummingbirdCore
import NIOCore

/// The routes of the control API for notifications.
struct NotificationRoutes: Sendable {
    let simulator: Simulator
    let events: EventLog
    /// The apps' localized strings.
    let strings: LocalizedStrings

    var routes: [ControlRoute] {
        [
            ControlRoute(.get, "/notifications") { try await self.list($0) },
            ControlRoute(.delete, "/notifications") { request in
                _ = try request.query([])
                self.simulator.removeNotifications()
                return Response(json: "{}")
            },
            ControlRoute(.get, "/notifications/{number}") { try self.one($0) },
        ]
    }

    private func one(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        let number = try request.number("number")
        guard let notification = self.simulator.notification(number) else {
            throw ControlError(.notFound, "no notification \(number); it was never received, or has left the record")
        }
        return Response(json: notification.jsonWithFrame(self.strings))
    }

    private func list(_ request: ControlRequest) async throws -> Response {
        let filter = try NotificationFilter(request.query(NotificationFilter.names))
        guard let wait = filter.wait else { return self.answer(filter, self.found(filter)) }
        return self.answer(filter, try await self.wait(filter, wait, request.channel))
    }

    private func found(_ filter: NotificationFilter, behind number: UInt64 = 0) -> [RecordedNotification] {
        guard let query = filter.query(behind: number) else { return [] }
        return self.simulator.notifications(query, countMax: filter.countMax)
    }

    private func answer(_ filter: NotificationFilter, _ found: [RecordedNotification]) -> Response {
        let (before, newest) = self.simulator.recordBounds
        let missedCount = before > filter.after ? before - filter.after : 0
        return Response(
            jsonElements: found.count,
            start: #"{"notifications":["#,
            end: #"],"lastNumber":\#(newest),"missedCount":\#(missedCount)}"#
        ) { found[$0].notification.json(self.strings) }
    }

    /// Waits until the requested number of notifications match.
    private func wait(
        _ filter: NotificationFilter,
        _ duration: Duration,
        _ channel: any Channel
    ) async throws -> [RecordedNotification] {
        let deadline = NIODeadline.now() + TimeAmount(duration)
        // Before reading the record, so that no new notification is missed.
        guard let reader = self.events.makeReader(channel: channel) else { throw ControlError.tooManyReaders }
        // Notifications are searched only once.
        var (count, last) = (0, UInt64(0))
        while true {
            let newest = self.simulator.recordBounds.newest
            let added = self.found(filter, behind: last)
            count += added.count
            if count >= filter.count {
                let found = last == 0 ? added : self.found(filter)
                if found.count >= filter.count { return found }
                // Some may have left the record meanwhile.
                count = found.count
            }
            last = newest
            var isDue = false
            while !isDue {
                guard let batch = await reader.next(until: deadline) else {
                    throw ControlError(.serviceUnavailable, "the simulator is shutting down")
                }
                guard !batch.events.isEmpty else { throw self.overdue(filter, duration, count) }
                isDue = batch.missedCount > 0
                for case .notifications in batch.events { isDue = true }
            }
        }
    }

    private func overdue(_ filter: NotificationFilter, _ duration: Duration, _ count: Int) -> ControlError {
        let statistics = self.simulator.statistics
        let last = self.simulator.notification(self.simulator.recordBounds.newest)
        var sentence =
            "\(count) of \(filter.count) matching notifications arrived within \(duration); in total, the simulator "
            + "accepted \(statistics.processedCount) and rejected \(statistics.rejectedCount)"
        if let last {
            sentence += "; the last one is number \(last.number)"
            if let topic = last.topic { sentence += " for \(topic)" }
            if let token = last.token { sentence += ", device token \(token.hexadecimal)" }
            if !last.isAccepted { sentence += ", rejected" }
        }
        return ControlError(.notFound, sentence)
    }
}

extension ControlError {
    /// The maximum number of waiting requests and event readers is reached.
    static var tooManyReaders: ControlError {
        var error = ControlError(
            .serviceUnavailable,
            "limit of \(EventLog.readerCountMaxDefault) waiting requests and event streams reached; end some of them"
        )
        error.headers[.retryAfter] = "1"
        return error
    }
}
