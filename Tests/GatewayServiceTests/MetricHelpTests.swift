// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import GatewayService

@Suite struct MetricHelpTests {
    @Test func `the document has exactly the metrics of the program`() throws {
        let documented = try DocumentedMetrics()
        #expect(Set(documented.gateway.keys) == Set(MetricHelp.gateway.keys))
        #expect(Set(documented.jobs.keys) == Set(MetricHelp.jobs.keys))
        #expect(documented.gateway.count > 25 && documented.jobs.count > 10)
    }

    @Test func `all names have the prefix, except those of the process`() {
        for name in MetricHelp.texts.keys {
            #expect(name.hasPrefix("apns_legacy_") || name.hasPrefix("process_"), "\(name)")
        }
    }
}
