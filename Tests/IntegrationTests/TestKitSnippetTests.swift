// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// The snippet of APNSTestKit runs, and the article and the README show what it prints.
@Suite(.timeLimit(.minutes(1))) struct TestKitSnippetTests {
    @Test func `the article on testing shows what the snippet prints, and so does the README`() async throws {
        let data = try await Program.run(try Child.program(named: "TestWithoutApple"), [], deadlineSeconds: 30)
        let printed = String(decoding: data, as: UTF8.self)
        #expect(printed.split(separator: "\n").count == 5, "\(printed)")
        for path in ["Sources/APNSTestKit/APNSTestKit.docc/Testing-a-provider.md", "README.md"] {
            let text = try String(contentsOf: GatewayTests.repository.appending(path: path), encoding: .utf8)
            #expect(text.contains("\(printed)```\n"), "\(path): \(printed)")
        }
    }
}
