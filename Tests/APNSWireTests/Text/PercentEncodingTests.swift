// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite struct PercentEncodingTests {
    @Test(
        arguments: [
            ("", ""), ("plain", "plain"), ("my%20phone", "my phone"), ("%C3%b6%25", "ö%"), ("a+b", "a+b"),
        ]
    )
    func `digits are decoded to bytes`(_ text: String, _ expected: String) {
        #expect(PercentEncoding.decoded(text) == expected)
    }

    @Test func `a path is encoded except its slashes, and decoded again`() {
        let path = "/my folder/ö?%#\n.sqlite"
        #expect(PercentEncoding.encoded(path: path) == "/my%20folder/%c3%b6%3f%25%23%0a.sqlite")
        #expect(PercentEncoding.decoded(PercentEncoding.encoded(path: path)) == path)
    }

    @Test(arguments: ["%", "%4", "a%4", "%zz", "%+1", "% 1", "%-1", "%c3", "%ff"])
    func `incomplete escapes, other characters and invalid UTF-8 are refused`(_ text: String) {
        #expect(PercentEncoding.decoded(text) == nil)
    }
}
