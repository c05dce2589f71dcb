// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Foundation

@testable import APNSJSON

/// Payloads, from both sides.
enum PayloadFuzz {
    /// A valid payload stays valid, and no longer, when it is minified or truncated.
    static func payload(_ bytes: [UInt8]) throws {
        let payload = Payload(bytes: bytes)
        guard (try? Payload.check(bytes)) != nil else {
            let problems = payload.problems(rules: .binary, countMax: 5)
            try require(!problems.isEmpty, "a payload that is not valid has a problem")
            _ = problems.map(\.description)
            return
        }
        guard let minified = try? Payload.minified(bytes) else { throw FuzzFinding(description: "cannot be minified") }
        try require(minified.count <= bytes.count && (try? Payload.minified(minified)) == minified, "minified once")
        let skippedByteCount = bytes.withUnsafeBytes { bytes in
            var scanner = JSONScanner(bytes)
            scanner.skipWhiteSpace()
            return (try? scanner.skipPayload(.binary))?.minifiedByteCount
        }
        try require(skippedByteCount == minified.count, "a payload is valid where others follow, and as long")
        try require((try? JSONValue(parsing: bytes)) == (try? JSONValue(parsing: minified)), "minified is the same")
        _ = try? payload.alertPreview(["a": "%@ %2$@ %%", "": "b"])
        for byteCount in [minified.count - 1, minified.count / 2] {
            guard let shortened = try? payload.truncated(to: byteCount) else { continue }
            try require(shortened.bytes.count <= byteCount, "truncated to \(byteCount)")
            try require((try? Payload.check(shortened.bytes)) != nil, "valid when it is truncated")
        }
    }

    /// What the builder reads, it writes, and reads again as the same.
    static func builder(_ bytes: [UInt8]) throws {
        guard let aps = try? JSONDecoder().decode(APS.self, from: Data(bytes)) else { return }
        let payload = Payload(aps, ["custom": "1"])
        guard let value = try? payload.value(), let written = value["aps"] else {
            throw FuzzFinding(description: "the builder's payload is not JSON")
        }
        guard let again = try? JSONDecoder().decode(APS.self, from: Data(written.bytes)) else {
            throw FuzzFinding(description: "the builder does not read its own payload")
        }
        try require(again == aps, "the builder reads what it wrote")
    }

    /// What is read of a file of strings is the same when it is written as one and read again.
    static func strings(_ bytes: [UInt8]) throws {
        let strings: LocalizedStrings
        do throws(LocalizedStringsProblem) { strings = try LocalizedStrings(parsing: bytes) } catch {
            return try require(error.line >= 1 && error.description.hasPrefix("line "), "an error has a line")
        }
        // By scalars, since a backslash and a mark behind it are one character.
        func quoted(_ text: String) -> String {
            var quoted = String.UnicodeScalarView("\"".unicodeScalars)
            for scalar in text.unicodeScalars {
                if scalar == "\\" || scalar == "\"" { quoted.append("\\") }
                quoted.append(scalar)
            }
            return String(quoted) + "\""
        }
        let file = strings.texts.map { "\(quoted($0.key)) = \(quoted($0.value));\n" }.joined()
        guard let again = try? LocalizedStrings(parsing: Array(file.utf8)) else {
            throw FuzzFinding(description: "the same texts are not a file")
        }
        try require(again == strings, "the texts are the same again")
        for key in strings.texts.keys {
            let text = strings.text(of: key, arguments: ["first", key])
            try require(text.map { $0.utf8.count <= 2 * LocalizedStrings.filledByteCountMax } ?? false, "a text")
        }
    }
}
