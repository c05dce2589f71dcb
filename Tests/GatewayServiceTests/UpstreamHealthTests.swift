// SPDX-License-Identifier: Apache-2.0

import Logging
import NIOConcurrencyHelpers
import Testing

@testable import GatewayService

@Suite struct UpstreamHealthTests {
    @Test func `an outage begins with the first failure, and ends with an answer or without attempts`() {
        let time = NIOLockedValueBox<Int64>(1_000_000_000)
        let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })
        let health = UpstreamHealth(logger: logger) { time.withLockedValue { $0 } }
        #expect(health.outage("shop") == nil && health.isReached("shop") == nil)
        health.failed("shop", "refused")
        time.withLockedValue { $0 += 90 }
        health.failed("shop", "timed out")
        let outage = UpstreamHealth.Outage(start: 1_000_000_000, lastFailure: 1_000_000_090, reason: "timed out")
        #expect(health.currentOutage("shop") == outage)
        #expect(outage.text == "upstream unreachable since 2001-09-09T01:46:40Z: timed out")
        time.withLockedValue { $0 += 121 }
        #expect(health.currentOutage("shop") == nil && health.outage("shop") == outage)
        health.failed("shop", "refused")
        #expect(health.currentOutage("shop")?.start == 1_000_000_000)
        health.answered("shop")
        #expect(health.outage("shop") == nil && health.isReached("shop") == true)
        #expect(health.outage("news") == nil)
    }

    @Test func `failures of one connection are no outage while another one answers`() {
        let time = NIOLockedValueBox<Int64>(1_000_000_000)
        let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })
        let health = UpstreamHealth(logger: logger) { time.withLockedValue { $0 } }
        health.answered("shop")
        for _ in 0..<20 {
            time.withLockedValue { $0 += 30 }
            health.failed("shop", "refused")
            time.withLockedValue { $0 += 2 }
            #expect(health.currentOutage("shop") == nil && health.outage("shop") == nil)
            #expect(health.isReached("shop") == true)
            health.answered("shop")
        }
        health.failed("shop", "refused")
        time.withLockedValue { $0 += 3 }
        #expect(health.currentOutage("shop")?.start == 1_000_000_640)
        #expect(health.isReached("shop") == false)
    }
}
