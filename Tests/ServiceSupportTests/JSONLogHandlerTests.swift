// SPDX-License-Identifier: Apache-2.0

import Logging
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import ServiceSupport

/// Goal: no client can fill a disk through the log, or displace other errors.
@Suite struct JSONLogHandlerTests {
    private static func logger(_ lines: NIOLockedValueBox<[String]>) -> (Logger, JSONLogHandler.Output) {
        let output = JSONLogHandler.Output { line in lines.withLockedValue { $0.append(line) } }
        return (Logger(label: "test") { _ in JSONLogHandler(level: .debug, output: output) }, output)
    }

    @Test(arguments: ["a", "\"", "\u{1}", "é", "😀"]) func `a long value is cut, and its length is appended`(
        _ character: Character
    ) throws {
        let text = String(repeating: character, count: 100_000)
        let quoted = JSONLogHandler.quoted(text)
        #expect(quoted.utf8.count < JSONLogHandler.byteCountMax + 50)
        #expect(quoted.hasSuffix("... (\(text.utf8.count) bytes)\""))
        let short = String(repeating: character, count: 100)
        #expect(!JSONLogHandler.quoted(short).contains("..."))
    }

    @Test func `a log line is one JSON object with any content`() {
        #expect(JSONLogHandler.quoted("a\"b\\c\nd\u{1}é") == "\"a\\\"b\\\\c\\nd\\u0001é\"")
    }

    @Test func `refusals beyond the limit are omitted and counted, and do not displace errors of providers`() {
        let lines = NIOLockedValueBox<[String]>([])
        let (logger, output) = Self.logger(lines)
        let (count, kind) = (TestEffort.count(1000, long: 10_000), JSONLogHandler.Kind.refusals)
        let start = ContinuousClock.now
        for _ in 0..<count {
            let reason = Logger.MetadataValue.string(String(repeating: "x", count: 1000))
            logger.warning(
                "provider refused",
                metadata: ["apns.legacy.provider.admitted": "false", "apns.legacy.refusal.reason": reason]
            )
        }
        logger.error("not delivered", metadata: ["apns.legacy.provider": "shop"])
        output.logOmissions()
        let written = lines.withLockedValue { $0 }
        let refused = written.filter { $0.contains("provider refused") }
        // The allowance refills over time, which a busy machine needs more of.
        let seconds = Int((ContinuousClock.now - start) / .seconds(1)) + 1
        let byteCount = refused.reduce(0) { $0 + $1.utf8.count }
        #expect(byteCount <= kind.byteCountMax + seconds * kind.byteCountPerSecond)
        #expect(refused.count < count)
        #expect(written.count { $0.contains("not delivered") } == 1)
        let omission = written.filter { $0.contains("log lines omitted") }
        let leftOut = "\"apns.legacy.log.leftout\":\"\(count - refused.count)\""
        #expect(omission.count == 1 && omission[0].contains(leftOut), "\(omission)")
        #expect(omission[0].contains("\"apns.legacy.log.kind\":\"refusals\""))
    }
}
