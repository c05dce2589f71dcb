// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@testable import APNSSimulator

/// Stored notifications, and their waiters.
struct NotificationHistoryTests {
    private static func notification(_ device: Int, payload: String = "{}") throws -> ReceivedNotification {
        ReceivedNotification(
            listener: .binary,
            token: try SimulatorFixture.token(device),
            payload: Array(payload.utf8),
            connectionNumber: 1,
            notificationNumber: 1
        )
    }

    /// The numbers of stored notifications.
    private static func kept(_ history: NotificationHistory) -> [UInt64] {
        history.segments(from: 0, countMax: .max).flatMap { Array($0.numbers) }
    }

    /// Adds notifications for devices, and returns the waiters of each.
    private func receive(_ devices: [Int], in history: inout NotificationHistory) throws -> [[UInt64]] {
        try devices.map { device in
            var notification = try Self.notification(device)
            return history.receive(&notification)
        }
    }

    /// The number of the notification that a request receives immediately.
    private func number(_ request: NotificationHistory.OnRequest) -> UInt64? {
        if case .deliver(let notification) = request { notification.number } else { nil }
    }

    @Test func `the oldest are removed, and numbers continue`() throws {
        var history = NotificationHistory(countMax: 3)
        #expect(try self.receive([1, 2, 1, 3, 1], in: &history) == [[], [], [], [], []])
        #expect(Self.kept(history) == [3, 4, 5])
        #expect(history.numberBeforeOldest == 2)
    }

    @Test func `each notification of a token is returned once, in order`() throws {
        var history = NotificationHistory(countMax: 10)
        _ = try self.receive([1, 2, 1], in: &history)
        let token = try SimulatorFixture.token(1)
        #expect(self.number(history.next(for: token, 1)) == 1)
        #expect(self.number(history.next(for: token, 2)) == 3)
        #expect(history.next(for: token, 3) == .wait)
        #expect(history.count == 3)
    }

    @Test func `a removed notification is not returned`() throws {
        var history = NotificationHistory(countMax: 2)
        let (first, second) = (try SimulatorFixture.token(1), try SimulatorFixture.token(2))
        _ = try self.receive([1, 2, 1, 1], in: &history)
        #expect(self.number(history.next(for: first, 1)) == 3)
        #expect(history.next(for: second, 2) == .wait)
        _ = try self.receive([1, 1], in: &history)
        #expect(self.number(history.next(for: first, 3)) == 5)
        #expect(self.number(history.next(for: first, 4)) == 6)
    }

    @Test func `waiters receive different notifications in the order of their requests`() throws {
        var history = NotificationHistory(countMax: 10)
        let token = try SimulatorFixture.token(1)
        #expect([1, 2].map { history.next(for: token, $0) } == [.wait, .wait])
        #expect(history.next(for: try SimulatorFixture.token(2), 3) == .wait)
        #expect(try self.receive([1, 2, 1, 1], in: &history) == [[1], [3], [2], []])
        #expect(self.number(history.next(for: token, 4)) == 4)
    }

    @Test func `a cancelled waiter receives nothing`() throws {
        var history = NotificationHistory(countMax: 10)
        let token = try SimulatorFixture.token(1)
        #expect([1, 2].map { history.next(for: token, $0) } == [.wait, .wait])
        #expect(history.next(behind: 0, 3) == .wait)
        history.cancel(1)
        history.cancel(3)
        #expect(try self.receive([1, 1], in: &history) == [[2], []])
    }

    @Test func `a follower receives all, independent of others`() throws {
        var history = NotificationHistory(countMax: 10)
        let token = try SimulatorFixture.token(1)
        _ = try self.receive([1, 2], in: &history)
        #expect(self.number(history.next(for: token, 1)) == 1)
        #expect(self.number(history.next(behind: 0, 2)) == 1)
        #expect(self.number(history.next(behind: 1, 3)) == 2)
        #expect(history.next(behind: 2, 4) == .wait)
        #expect(history.next(for: token, 5) == .wait)
        #expect(try self.receive([1], in: &history) == [[4, 5]])
    }

    @Test func `a follower that is too slow receives the number of missed notifications`() throws {
        var history = NotificationHistory(countMax: 2)
        _ = try self.receive([1, 1, 1, 1, 1], in: &history)
        #expect(history.next(behind: 1, 1) == .fail(missedCount: 2))
        #expect(self.number(history.next(behind: 3, 2)) == 4)
    }

    @Test func `without storage, waiters still receive notifications`() throws {
        var history = NotificationHistory(countMax: 0)
        let token = try SimulatorFixture.token(1)
        #expect(history.next(for: token, 1) == .wait)
        #expect(try self.receive([1, 1], in: &history) == [[1], []])
        #expect(history.next(for: token, 2) == .wait)
        #expect(history.count == 0)
    }

    @Test func `the end is reported to all current and later waiters`() throws {
        var history = NotificationHistory(countMax: 10)
        let token = try SimulatorFixture.token(1)
        #expect(history.next(for: token, 1) == .wait)
        #expect(history.next(behind: 0, 2) == .wait)
        #expect(history.end().sorted() == [1, 2])
        #expect(history.next(for: token, 3) == .end)
        #expect(history.next(behind: 0, 4) == .end)
    }

    /// Goal: a notification is returned at most once, and only for its token.
    ///
    /// Method: random notifications, requests and cancellations, compared with a simple model.
    @Test(arguments: 0..<20 as Range<UInt64>) func `random walks agree with a model`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let countMax = Int(random.next() % 6)
        var history = NotificationHistory(countMax: countMax)
        var kept: [(number: UInt64, device: Int, isReturned: Bool)] = []
        var waiting: [(waiter: UInt64, device: Int)] = []
        var (number, waiter) = (UInt64(0), UInt64(0))
        for _ in 0..<500 {
            let device = 1 + Int(random.next() % 3)
            switch random.next() % 3 {
            case 0:
                number += 1
                let expected = waiting.firstIndex { $0.device == device }
                let given = expected.map { [waiting.remove(at: $0).waiter] } ?? []
                #expect(try self.receive([device], in: &history) == [given])
                kept = (kept + [(number, device, expected != nil)]).suffix(countMax)
            case 1:
                waiter += 1
                let expected = kept.firstIndex { $0.device == device && !$0.isReturned }
                let request = history.next(for: try SimulatorFixture.token(device), waiter)
                #expect(self.number(request) == expected.map { kept[$0].number })
                if let expected { kept[expected].isReturned = true } else { waiting.append((waiter, device)) }
            default:
                guard !waiting.isEmpty else { break }
                history.cancel(waiting.remove(at: Int(random.next() % UInt64(waiting.count))).waiter)
            }
            #expect(Self.kept(history) == kept.map { $0.number })
        }
    }

    @Test func `no description contains a token or a payload`() throws {
        let notification = try Self.notification(1, payload: "secret")
        var text = "\(notification)"
        dump(notification, to: &text)
        let token = try SimulatorFixture.token(1).hexadecimal
        #expect(!text.contains("secret") && !text.contains(token) && !text.contains("115"))
        #expect(text.contains("binary gateway"))
    }
}
