// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// The snippet of APNSWire runs, and its article shows what it prints.
@Suite(.timeLimit(.minutes(1))) struct WireSnippetTests {
    @Test func `the article on frames shows what the snippet prints`() async throws {
        let data = try await Program.run(try Child.program(named: "FramesWithoutNIO"), [], deadlineSeconds: 30)
        let printed = String(decoding: data, as: UTF8.self)
        #expect(printed.split(separator: "\n").count == 5)
        let article = "Sources/APNSWire/APNSWire.docc/Frames-without-SwiftNIO.md"
        let text = try String(contentsOf: GatewayTests.repository.appending(path: article), encoding: .utf8)
        #expect(text.contains("```\n\(printed)```\n"), "\(printed)")
    }
}
