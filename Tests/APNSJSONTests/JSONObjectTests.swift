// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import Testing

@Suite struct JSONObjectTests {
    @Test func `members are written in the order in which they are added, and nil is left out`() {
        let object = JSONObject { object in
            object.add("z", "text")
            object.add("none", String?.none)
            object.add("n", -5)
            object.add("noNumber", Int?.none)
            object.add("isSet", true)
            object.add("raw", json: "[1]")
            object.add("noRaw", json: nil)
            object.add("inner", JSONObject { $0.add("a", 1) })
            object.add("noObject", JSONObject?.none)
            object.add("texts", texts: ["x", "\""])
            object.add("elements", elements: ["1", "null"])
            object.add("objects", elements: [JSONObject(), JSONObject { $0.add("b", false) }])
        }
        let expected =
            #"{"z":"text","n":-5,"isSet":true,"raw":[1],"inner":{"a":1},"texts":["x","\""],"elements":[1,null],"#
            + #""objects":[{},{"b":false}]}"#
        #expect(object.text == expected)
        #expect(object.bytes == Array(expected.utf8))
        #expect(JSONObject().text == "{}")
    }

    @Test(arguments: ["", "a\"b", "\\", "line\nend", "\u{0}\u{1F}\u{7F}", "é日😀\u{2028}", "\"\""])
    func `names and texts are read back as they were`(_ text: String) throws {
        let object = JSONObject { $0.add(text, text) }
        let fields = try #require(JSONFields(object.bytes))
        #expect(fields.string(text) == text)
        #expect(!object.bytes.contains { $0 < 0x20 || $0 == 0x7F })
    }
}
