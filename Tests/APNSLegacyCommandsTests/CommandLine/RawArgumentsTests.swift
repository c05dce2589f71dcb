// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSLegacyCommands

/// Arguments that are not UTF-8.
@Suite struct RawArgumentsTests {
    private static let latin1 = Array("caf".utf8) + [0xE9] + Array(".jsonl".utf8)

    @Test func `the name of a file is shown with its bytes, and anything else only by its place`() throws {
        let arguments = [Array("send".utf8), Self.latin1, Array("é".utf8)]
        let file = try #require(RawArguments.failure(arguments) { $0 == Self.latin1 })
        #expect(file.description == "the file name \"caf\\xE9.jsonl\" is not UTF-8; rename the file")
        let other = try #require(RawArguments.failure(arguments) { _ in false })
        #expect(other.description == "argument 2 is not UTF-8; use another name or value")
        #expect(file.status == .usage && other.status == .usage)
    }

    @Test func `text is accepted, also with the character that replaces others`() {
        #expect(RawArguments.failure([Array("a\u{FFFD}é".utf8), []]) { _ in true } == nil)
        #expect(RawArguments.failure == nil)
    }
}
