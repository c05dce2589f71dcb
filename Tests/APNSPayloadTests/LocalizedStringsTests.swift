// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSPayload
import Testing

/// Localized alerts as users see them.
@Suite("Localized strings")
struct LocalizedStringsTests {
    private static let file = #"""
        /* Invitations;
           they "may" have comments = of several lines; */
        "INVITE" = "%@ and %@ want you to join";
        "INVITE_TURNED" = "%2$@ and %1$@ want you to join"; // the other way around
        PLAIN.key-1 = "100%% sure";
        "quote\"d" = "a \"b\"\n\U00e9\uD83D\uDE00\\";
        "ALONE";
        """#

    private func strings() throws -> LocalizedStrings { try LocalizedStrings(parsing: Array(Self.file.utf8)) }

    @Test("A file is read: comments, words without quotes, escapes")
    func file() throws {
        #expect(
            try self.strings().texts == [
                "INVITE": "%@ and %@ want you to join",
                "INVITE_TURNED": "%2$@ and %1$@ want you to join",
                "PLAIN.key-1": "100%% sure",
                "quote\"d": "a \"b\"\né😀\\",
                "ALONE": "ALONE",
            ]
        )
    }

    @Test("A JSON object is also read")
    func json() throws {
        let text = "\n { \"k\": \"%@ \\u00e9\\n\", \"k2\" : \"\", \"k\": \"last\" }\n"
        #expect(try LocalizedStrings(parsing: Array(text.utf8)).texts == ["k": "last", "k2": ""])
        let units = Array(#"{"k":"é😀"}"#.utf16)
        let file: [UInt8] = [0xFF, 0xFE] + units.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        #expect(try LocalizedStrings(parsing: file).texts == ["k": "é😀"])
        #expect(try LocalizedStrings(parsing: Array("{}".utf8)).texts == [:])
    }

    @Test("A text that repeats its arguments is truncated at the limit")
    func limit() {
        let format = String(repeating: "%1$@", count: 10_000)
        let text = LocalizedStrings.filled(format, with: [String(repeating: "x", count: 4096)])
        #expect(text.utf8.count <= LocalizedStrings.filledByteCountMax + Payload.truncationMark.utf8.count)
        #expect(text.hasSuffix("x" + Payload.truncationMark))
    }

    @Test("UTF-8 with a mark, and UTF-16 of either order")
    func encodings() throws {
        let text = #""k" = "é😀";"#
        let units = Array(text.utf16)
        let files: [[UInt8]] = [
            [0xEF, 0xBB, 0xBF] + Array(text.utf8),
            [0xFF, 0xFE] + units.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] },
            [0xFE, 0xFF] + units.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] },
        ]
        for file in files { #expect(try LocalizedStrings(parsing: file).texts == ["k": "é😀"]) }
    }

    @Test(
        "Arguments are inserted",
        arguments: [
            ("%@ and %@", ["Ann", "Ben"], "Ann and Ben"), ("%2$@ and %1$@", ["Ann", "Ben"], "Ben and Ann"),
            ("%% %@ %%", ["x"], "% x %"), ("%@ %@", ["x"], "x %@"), ("%3$@", ["x"], "%3$@"), ("none", ["x"], "none"),
            ("%d 5% %", ["x"], "%d 5% %"), ("%n%s%x", ["x"], "%n%s%x"), ("%999999$@|", ["x"], "%999999$@|"),
            ("%-1$@ %1$ @ %1$", ["x"], "%-1$@ %1$ @ %1$"), ("%@", ["%@"], "%@"), ("%0$@", ["x"], "%0$@"),
            ("%99999999999999999999$@", ["x"], "%99999999999999999999$@"), ("%%@", ["x"], "%@"), ("", [], ""),
        ]
    )
    func filling(format: String, arguments: [String], text: String) {
        #expect(LocalizedStrings.filled(format, with: arguments) == text)
    }

    @Test(
        "Problems have their line",
        arguments: [
            ("\"a\" = \"b\";\n\"c\" = ;", 2, "expected a key or a text"),
            ("\"a\" = \"b\"\n\"c\" = \"d\";", 2, "expected \";\""),
            ("\"a\" = \"b", 1, "unterminated string or comment"),
            ("\n/* never", 2, "unterminated string or comment"), ("\"a\" =", 1, "expected a key or a text"),
            ("[]", 1, "expected a key or a text"), ("\"a\" \"b\";", 1, "expected \";\""),
            ("\"a\\", 1, "unterminated string or comment"),
            ("{\n\"a\": \"b\",\n\"c\": 5}", 3, "expected a key or a text"),
            ("{\n\"a\": \"b\"\n\"c\": \"d\"}", 3, "\(JSONProblem.missingCommaOrBrace)"),
            ("{\"a\": \"b\"} x", 1, "\(JSONProblem.trailingContent)"),
        ]
    )
    func problems(text: String, line: Int, reason: String) {
        #expect { try LocalizedStrings(parsing: Array(text.utf8)) } throws: {
            "\($0)" == "line \(line): \(reason)"
        }
    }

    @Test("Bytes that are not text are refused")
    func notUnicode() {
        for bytes: [UInt8] in [[0xFF, 0xFE, 0x00], [0x22, 0xC3, 0x22], [0xFF, 0xFE, 0x00, 0xD8]] {
            #expect(throws: LocalizedStringsProblem.self) { try LocalizedStrings(parsing: bytes) }
        }
    }

    @Test("An alert preview shows what the user sees")
    func preview() throws {
        let alert = APS.Alert(
            title: .localized(key: "MISSING"),
            subtitle: "Plain",
            body: .localized(key: "INVITE_TURNED", arguments: ["Ann", "Ben"])
        )
        let preview = try #require(try Payload(APS(alert: alert)).alertPreview(self.strings()))
        #expect(preview.title == "MISSING")
        #expect(preview.subtitle == "Plain")
        #expect(preview.body == "Ben and Ann want you to join")
        #expect(preview.missingKeys == ["MISSING"])
        #expect(try Payload(APS(badge: 1)).alertPreview() == nil)
        let action: Payload = #"{"aps":{"alert":{"body":"b","action-loc-key":"PLAIN.key-1"}}}"#
        #expect(try action.alertPreview(self.strings())?.action == "100% sure")
        #expect(try action.alertPreview()?.missingKeys == ["PLAIN.key-1"])
        let none: Payload = #"{"aps":{"alert":{"body":"b","action-loc-key":null}}}"#
        #expect(try none.alertPreview()?.action == nil && none.alertPreview()?.missingKeys == [])
        #expect(try Payload(APS(alert: "Hi")).alertPreview()?.body == "Hi")
        #expect(throws: PayloadProblem.self) { try Payload("{").alertPreview() }
    }
}
