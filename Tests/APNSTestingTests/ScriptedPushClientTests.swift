// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTesting
import Synchronization
import Testing

/// Goal: a scripted client behaves as a real one, except that its outcomes are those of its script.
@Suite(.timeLimit(.minutes(1))) struct ScriptedPushClientTests {
    private static func notification(_ number: Int, payload: String = "{\"aps\":{}}") throws -> PushNotification {
        PushNotification(token: try DeviceToken(bytes: [UInt8](repeating: UInt8(number), count: 32)), payload: payload)
    }

    @Test func `outcomes are those of the list, and afterwards the other one`() async throws {
        let client = ScriptedPushClient([.accepted, .suppressed], otherwise: .unsent(.deadline))
        var reports: [DeliveryReport] = []
        for number in 1...3 { reports.append(await client.report(of: try Self.notification(number))) }
        #expect(reports.map(\.outcome) == [.accepted, .suppressed, .unsent(.deadline)])
        #expect(reports.map(\.attempts) == [1, 0, 0])
    }

    @Test func `a report depends on the notification and its index`() async throws {
        let client = ScriptedPushClient { notification, index in
            DeliveryReport(notification.payloadText.contains("badge") ? .suppressed : .accepted, attempts: index + 3)
        }
        #expect(await client.report(of: try Self.notification(1)) == DeliveryReport(.accepted, attempts: 3))
        let long = try Self.notification(2, payload: "{\"aps\":{\"badge\":1}}")
        #expect(await client.report(of: long) == DeliveryReport(.suppressed, attempts: 4))
    }

    @Test func `a payload is checked as by a real client, and an invalid one is not sent`() async throws {
        let client = ScriptedPushClient()
        guard case .invalid(.payload) = await client.send(try Self.notification(1, payload: "{")) else {
            Issue.record("an invalid payload was sent")
            return
        }
        #expect(client.sent.isEmpty)
    }

    @Test func `records have the identifiers of the rows, and the filter of a real client`() async throws {
        let client = ScriptedPushClient([.accepted, .suppressed])
        let rows = try (1...3).map { (id: $0, notification: try Self.notification($0)) }
        var records: [Int: DeliveryOutcome] = [:]
        for try await record in client.send(rows) { records[record.id] = record.outcome }
        #expect(records == [1: .accepted, 2: .suppressed, 3: .accepted])
        let again = ScriptedPushClient([.accepted, .suppressed])
        for try await record in again.send(rows, only: .exceptions) { #expect(record.id == 2) }
        #expect(again.sent.count == 3)
    }

    @Test func `if the loop is cancelled, each row that was read has a record, also one that waits`() async throws {
        let client = ScriptedPushClient()
        let readCount = Mutex(0)
        let notification = try Self.notification(1)
        let countMax = DeliveryRecords<AsyncStream<(id: Int, notification: PushNotification)>, Int>.openCountMax
        let (full, continuation) = AsyncStream<Never>.makeStream()
        let rows = AsyncStream<(id: Int, notification: PushNotification)> {
            let number = readCount.withLock {
                $0 += 1
                return $0
            }
            if number > countMax { continuation.finish() }
            return (id: number, notification: notification)
        }
        let task = Task {
            var iterator = client.send(rows).makeAsyncIterator()
            var ids = [try await iterator.next()?.id]
            for await _ in full {}
            withUnsafeCurrentTask { $0?.cancel() }
            do { while let record = try await iterator.next() { ids.append(record.id) } } catch is CancellationError {}
            return ids.count
        }
        let count = try await task.value
        #expect(count > countMax && count == readCount.withLock { $0 })
    }

    @Test func `the outcomes of an array are in its order`() async throws {
        let client: any PushClientProtocol = ScriptedPushClient([.accepted, .suppressed])
        let notifications = try (1...3).map { try Self.notification($0) }
        #expect(await client.send(notifications) == [.accepted, .suppressed, .accepted])
    }

    @Test func `each notification is returned once, also if it was sent before the call`() async throws {
        let client = ScriptedPushClient()
        for number in 1...2 { _ = await client.send(try Self.notification(number)) }
        async let third = client.send(try Self.notification(3))
        #expect(try await client.next(within: .seconds(10)) == Self.notification(1))
        #expect(try await client.next(count: 2, within: .seconds(10)) == [Self.notification(2), Self.notification(3)])
        #expect(try await third == .accepted)
    }

    @Test func `a wait for too many ends with an error, and consumes nothing`() async throws {
        let client = ScriptedPushClient()
        _ = await client.send(try Self.notification(1))
        let error = await #expect(throws: ScriptedPushClient.TooFewSent.self) {
            try await client.next(count: 2, within: .milliseconds(10))
        }
        #expect(error?.count == 1 && error?.expectedCount == 2)
        #expect(try await client.next(within: .seconds(10)) == Self.notification(1))
    }

    @Test func `a cancelled task does not wait for a slow service`() async throws {
        let (stream, answer) = AsyncStream<Never>.makeStream()
        let client = ScriptedPushClient { _, _ in
            for await _ in stream {}
            return DeliveryReport(.accepted)
        }
        let sending = Task { await client.send(try Self.notification(1)) }
        _ = try await client.next(within: .seconds(10))
        sending.cancel()
        #expect(try await sending.value == .indeterminate(.cancelled))
        let late = await client.send(try Self.notification(2), deadline: .now + .milliseconds(10))
        #expect(late == .indeterminate(.deadline))
        answer.finish()
    }

    @Test func `an end makes further notifications unsent, and ends sequences with an error`() async throws {
        let client = ScriptedPushClient()
        let (stream, rows) = AsyncStream<(id: Int, notification: PushNotification)>.makeStream()
        rows.yield((id: 1, notification: try Self.notification(1)))
        var records = client.send(stream, only: .all).makeAsyncIterator()
        #expect(try await records.next()?.id == 1)
        client.end()
        await #expect(throws: ProviderError.self) { try await records.next() }
        #expect(await client.send(try Self.notification(2)) == .unsent(.stopped))
    }
}
