// SPDX-License-Identifier: Apache-2.0

import HummingbirdCore
import Testing

@testable import SimulatorService

@Suite struct ResponseCompressionTests {
    @Test(
        arguments: [
            ("gzip", true), ("x-gzip", true), ("GZIP;Q=0.5", true), ("deflate, gzip", true), ("*", true),
            ("gzip;q=0.001, *;q=0", true), ("*;q=0, gzip", true), ("gzip;q=0, *", false), ("*, gzip;q=0", false),
            ("gzip ; q=0.000, *;q=1", false), ("*;q=0", false), ("identity, br", false), ("gzip;q=x", false),
            ("", false), (nil, false),
        ] as [(String?, Bool)]
    )
    func `the entry for gzip decides, and the one for any encoding only without it`(
        _ header: String?,
        _ isAccepted: Bool
    ) {
        #expect(Response.isGzipAccepted(header) == isAccepted)
    }
}
