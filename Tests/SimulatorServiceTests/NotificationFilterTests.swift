// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Testing

@testable import SimulatorService

/// Goal: a misspelled query is rejected with the valid values, and never mistaken for another one.
@Suite struct NotificationFilterTests {
    private static func problem(_ query: [String: String]) -> String? {
        do {
            _ = try NotificationFilter(query)
            return nil
        } catch { return (error as? ControlError)?.sentence }
    }

    @Test func `a query is parsed`() throws {
        let token = String(repeating: "ab", count: 32)
        let filter = try NotificationFilter([
            "token": token.uppercased(), "topic": "com.example.app", "listener": "http2", "outcome": "any",
            "text": "Hello", "after": "3", "before": "9", "limit": "5", "order": "newest", "wait": "500ms",
            "count": "2",
        ])
        #expect(filter.token == (try DeviceToken(token)))
        #expect(filter.listener == .http2 && filter.outcome == .any && filter.order == .newest)
        #expect(filter.text == SearchText("hello"))
        #expect(filter.after == 3 && filter.before == 9 && filter.countMax == 5 && filter.count == 2)
        #expect(filter.wait == .milliseconds(500))
    }

    @Test(
        arguments: [
            ["token": "xyz"], ["listener": "feedback"], ["listener": "HTTP2"], ["outcome": "all"], ["order": "up"],
            ["after": "-1"], ["after": "18446744073709551616"], ["before": "x"], ["limit": "0"], ["limit": "1001"],
            ["wait": "5"], ["wait": "11m"], ["wait": "-1s"], ["wait": "1d"], ["wait": ""], ["count": "2"],
            ["wait": "1s", "count": "0"],
        ]
    )
    func `an invalid query is rejected`(_ query: [String: String]) {
        #expect(Self.problem(query) != nil)
    }

    @Test func `a request returns as many notifications as it waits for`() throws {
        #expect(try NotificationFilter(["wait": "1s", "count": "500"]).countMax == 500)
    }
}
