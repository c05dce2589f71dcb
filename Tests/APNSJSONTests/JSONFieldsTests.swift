// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import Testing

@Suite struct JSONFieldsTests {
    private func fields(_ text: String) -> JSONFields? { JSONFields(Array(text.utf8)) }

    @Test func `strings and integers are read, other values are ignored`() throws {
        let fields = try #require(
            self.fields(##" {"reason":"Unreg\u0069stered","timestamp":1700000000123,"x":[{"reason":"y"}],"n":null} "##)
        )
        #expect(fields.string("reason") == "Unregistered")
        #expect(fields.integer("timestamp") == UInt64(1_700_000_000_123))
        #expect(fields.string("timestamp") == nil)
        #expect(fields.integer("reason") == Int?.none)
        #expect(fields.string("x") == nil)
    }

    @Test func `of two members with the same name the last one counts`() throws {
        let fields = try #require(self.fields(#"{"b":[],"a":"1","\u0061":"2"}"#))
        #expect(fields.string("a") == "2" && fields.repeatedName == "a")
        #expect(try #require(self.fields(#"{"a":"1","b":{"a":1}}"#)).repeatedName == nil)
    }

    @Test func `a member of any kind is contained`() throws {
        let fields = try #require(self.fields(#"{"a":null,"b":1}"#))
        #expect(fields.contains("a") && fields.contains("b") && !fields.contains("c"))
    }

    @Test(arguments: [("-1", nil), ("1.5", nil), ("1e3", 1000), ("5.0", 5), ("99999999999999999999", nil)])
    func `a number that does not fit the integer type is nil`(_ text: String, _ value: UInt64?) throws {
        #expect(try #require(self.fields("{\"a\":\(text)}")).integer("a") == value)
    }

    @Test(arguments: ["", "[]", "\"a\"", "{", "{}x", "{\"a\":1,}", "{\"a\":\"\u{1}\"}", "{\"a\":01}"])
    func `anything other than an object is nil`(_ text: String) { #expect(self.fields(text) == nil) }
}
