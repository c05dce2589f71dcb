// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

/// Alerts that are shortened to fit: the limit applies to the bytes, and users see complete words and characters.
@Suite("Truncating payloads")
struct PayloadTruncationTests {
    private func text(_ payload: Payload) -> String { String(decoding: payload.bytes, as: UTF8.self) }

    private func body(_ payload: Payload) throws -> String? { try payload.alertPreview()?.body }

    @Test("A payload that fits is unchanged, with its white space")
    func fits() throws {
        let payload: Payload = #"{ "aps" : { "alert" : "Hello" } }"#
        #expect(try payload.truncated(to: payload.bytes.count) == payload)
    }

    @Test("White space and escapes are removed before text")
    func cheapestFirst() throws {
        let payload: Payload = #"{ "aps" : { "alert" : "caf\u00e9" } }"#
        #expect(try self.text(payload.truncated(to: 34)) == #"{"aps":{"alert":"caf\u00e9"}}"#)
        #expect(try self.text(payload.truncated(to: 26)) == #"{"aps":{"alert":"café"}}"#)
    }

    @Test("Text is truncated between words")
    func words() throws {
        let payload = Payload(APS(alert: "One two three four"))
        let room = { (count: Int) in payload.bytes.count - "One two three four".utf8.count + count }
        #expect(try self.body(payload.truncated(to: room(16))) == "One two three…")
        #expect(try self.body(payload.truncated(to: room(17))) == "One two three…")
        #expect(try self.body(payload.truncated(to: room(15))) == "One two…")
    }

    @Test("A long word is truncated, but not inside a character of several code points")
    func characters() throws {
        let family = "👨‍👩‍👧‍👦"
        let payload = Payload(APS(alert: .init(title: "T", body: .plain("ab" + family + family))))
        let fixed = payload.bytes.count - 2 - 2 * family.utf8.count
        #expect(try self.body(payload.truncated(to: fixed + 2 + family.utf8.count + 3)) == "ab" + family + "…")
        #expect(try self.body(payload.truncated(to: fixed + 2 + family.utf8.count + 2)) == "ab…")
    }

    @Test("A payload is too long if nothing is left of the text")
    func nothingLeft() throws {
        let payload = Payload(APS(alert: "Hello there"), ["id": 1])
        let fixed = payload.bytes.count - "Hello there".utf8.count
        #expect(throws: PayloadProblem.self) { try payload.truncated(to: fixed + 3) }
        #expect(try self.body(payload.truncated(to: fixed + 4)) == "H…")
        #expect(throws: PayloadProblem.self) { try Payload(APS(badge: 1), ["a": "bcdefgh"]).truncated(to: 10) }
        #expect(throws: PayloadProblem.self) {
            try Payload(APS(alert: .init(body: .localized(key: "LONG", arguments: ["x"])))).truncated(to: 20)
        }
    }

    @Test(
        "Every limit is kept, and the other keys are unchanged",
        arguments: [
            "The quick brown fox \"jumps\" over\tthe \\ lazy dog, again and again and again.",
            "日本語の長い文章はことばの間に空白がありません。それでも切れます。",
            "e\u{301}e\u{301}e\u{301}e\u{301} 🇩🇪🇫🇷🇮🇹🇪🇸 \u{1}\u{2}\u{3}", "   leading and trailing   ",
        ]
    )
    func everyLimit(text: String) throws {
        let payload = Payload(APS(alert: .init(title: "Title", body: .plain(text)), badge: 3), ["key": "value"])
        var lengthBefore = -1
        for limit in 0...payload.bytes.count {
            guard let truncated = try? payload.truncated(to: limit) else {
                #expect(lengthBefore == -1, "a result was possible at \(limit - 1)")
                continue
            }
            #expect(truncated.bytes.count <= limit)
            try truncated.check()
            let body = try #require(try self.body(truncated))
            if limit == payload.bytes.count {
                #expect(truncated == payload)
            } else {
                #expect(body.hasSuffix("…"))
                #expect(text.hasPrefix(String(body.dropLast())))
                #expect(Array(text).starts(with: Array(body.dropLast())))
            }
            lengthBefore = body.count
            #expect(try truncated.value()["key"] == "value")
            #expect(try truncated.value()["aps"]?["alert"]?["title"] == "Title")
        }
        #expect(lengthBefore == text.count)
    }

    @Test("A name with escapes is found")
    func escapedName() throws {
        let payload: Payload = #"{"\u0061ps":{"alert":{"b\u006fdy":"Hello there, you"}}}"#
        let limit = payload.bytes.count - 4
        #expect(try self.body(payload.truncated(to: limit)) == "Hello…")
    }
}
