// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: the output of a snippet in an article is its actual output.
///
/// Method: run the snippet, and compare its output with the blocks of the article that have no language.
@Suite(.timeLimit(.minutes(1))) struct SnippetOutputTests {
    private static func text(_ path: String) throws -> String {
        try String(contentsOf: GatewayTests.repository.appending(path: path), encoding: .utf8)
    }

    /// The contents of the blocks without a language, in order.
    private static func output(in article: String) -> String {
        var output = ""
        var fence: Substring?
        for line in article.split(separator: "\n", omittingEmptySubsequences: false) {
            switch fence {
            case nil where line.hasPrefix("```"): fence = line
            case .some where line == "```": fence = nil
            case "```": output += "\(line)\n"
            case nil, .some: break
            }
        }
        return output
    }

    private static func run(_ name: String, _ arguments: [String] = []) async throws -> String {
        let data = try await Program.run(try Child.program(named: name), arguments, deadlineSeconds: 30)
        return String(decoding: data, as: UTF8.self)
    }

    @Test(arguments: [
        ("FramesWithoutNIO", "APNSWire/APNSWire.docc/Frames-without-SwiftNIO.md", 5),
        ("EchoOverTLS", "OpenSSLTLS/OpenSSLTLS.docc/TLS-in-a-channel.md", 2),
        ("TestWithoutApple", "APNSTestKit/APNSTestKit.docc/Testing-a-provider.md", 6),
        ("WritePayloads", "APNSPayload/APNSPayload.docc/Writing-payloads.md", 10),
    ])
    func `an article shows the output of its snippet`(_ name: String, _ article: String, _ lineCount: Int) async throws
    {
        let printed = try await Self.run(name)
        #expect(printed.split(separator: "\n").count == lineCount, "\(printed)")
        #expect(Self.output(in: try Self.text("Sources/\(article)")) == printed)
    }

    @Test func `identities in each format are read, and the article shows the output of the snippet`() async throws {
        let scene = try SendScene()
        try scene.writeIdentities()
        let article = try Self.text("Sources/OpenSSLTLS/OpenSSLTLS.docc/Certificates-and-keys.md")
        // The certificates of tests expire within a day.
        let shown = Self.output(in: article).replacing("renew it: false", with: "renew it: true")
        let printed = try await Self.run("ReadIdentities", [scene.folder])
        #expect(printed == shown)
    }
}
