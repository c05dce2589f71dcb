// SPDX-License-Identifier: Apache-2.0

import Logging
import NIOConcurrencyHelpers
import Testing

@testable import GatewayService

/// Goal: nobody can fill a disk through the log, or keep the errors of others out of it.
@Suite struct GatewayLogTests {
    private static func logger(_ lines: NIOLockedValueBox<[String]>) -> (Logger, GatewayLog.Output) {
        let output = GatewayLog.Output { line in lines.withLockedValue { $0.append(line) } }
        return (Logger(label: "test") { _ in GatewayLog(level: .debug, output: output) }, output)
    }

    @Test(arguments: ["a", "\"", "\u{1}", "é", "😀"]) func `a long value is cut, and says how long it was`(
        _ character: Character
    ) throws {
        let text = String(repeating: character, count: 100_000)
        let quoted = GatewayLog.quoted(text)
        #expect(quoted.utf8.count < GatewayLog.byteCountMax + 50)
        #expect(quoted.hasSuffix("... (\(text.utf8.count) bytes)\""))
        let short = String(repeating: character, count: 100)
        #expect(!GatewayLog.quoted(short).contains("..."))
    }

    @Test func `refusals are left out beyond their bytes, counted, and do not keep errors of providers out`() {
        let lines = NIOLockedValueBox<[String]>([])
        let (logger, output) = Self.logger(lines)
        for _ in 0..<1000 {
            let reason = Logger.MetadataValue.string(String(repeating: "x", count: 1000))
            logger.warning(
                "provider refused",
                metadata: ["push.provider.admitted": "false", "push.refusal.reason": reason]
            )
        }
        logger.error("not delivered", metadata: ["push.provider": "shop"])
        output.logOmissions()
        let written = lines.withLockedValue { $0 }
        let refused = written.filter { $0.contains("provider refused") }
        #expect(refused.reduce(0) { $0 + $1.utf8.count } < 2 * GatewayLog.Kind.refusals.byteCountMax)
        #expect(written.count { $0.contains("not delivered") } == 1)
        let omission = written.filter { $0.contains("log lines left out") }
        let count = "\"push.log.leftout\":\"\(1000 - refused.count)\""
        #expect(omission.count == 1 && omission[0].contains(count), "\(omission)")
        #expect(omission[0].contains("\"push.log.kind\":\"refusals\""))
    }
}
