// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import Testing

@Suite struct ScanFailureTests {
    @Test(arguments: [
        ("", 0, 1, 1), ("ab", 2, 1, 3), ("a\nb", 2, 2, 1), ("a\r\nb", 3, 2, 1), ("a\rb", 2, 2, 1), ("é日b", 5, 1, 3),
        ("a", 9, 1, 2),
    ])
    func `a place is counted in lines and code points`(_ text: String, _ offset: Int, _ line: Int, _ column: Int) {
        let place = Array(text.utf8).withUnsafeBytes { $0.place(of: offset) }
        #expect(place == (line, column))
    }
}
