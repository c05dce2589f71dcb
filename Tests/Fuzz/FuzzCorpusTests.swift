// SPDX-License-Identifier: Apache-2.0

import CZlib
import Foundation
import Testing

/// Goal: what the fuzzer has found or reached stays as it is: each input of the kept corpora is run once.
@Suite(.timeLimit(.minutes(2)), .serialized) struct FuzzCorpusTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "corpora")

    @Test(arguments: FuzzTarget.allCases)
    func `each target withstands its corpus`(_ target: FuzzTarget) async throws {
        let path = Self.folder.appending(path: "\(target.rawValue).base64")
        let lines = try String(contentsOf: path, encoding: .utf8).split(separator: "\n")
        #expect(!lines.isEmpty)
        for (number, line) in lines.enumerated() {
            let input = try #require(Self.input(of: line), "line \(number + 1)")
            do {
                try target.run(input)
                if target == .control { try await ControlFuzz.run(input) }
            } catch {
                Issue.record("line \(number + 1): \(error)")
            }
        }
    }

    /// The input in a line, which is compressed and in Base64.
    private static func input(of line: Substring) -> [UInt8]? {
        guard let data = Data(base64Encoded: String(line)) else { return nil }
        var input = [UInt8](repeating: 0, count: 8192)
        var count = uLongf(input.count)
        guard uncompress(&input, &count, Array(data), uLong(data.count)) == Z_OK else { return nil }
        return Array(input.prefix(Int(count)))
    }
}
