// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

@testable import Batch

@Suite struct PayloadInputTests {
    private static func input(_ line: String) -> PayloadInput { PayloadInput(line: line, lineNumber: 7, name: "a") }

    @Test func `a line is a payload, or has one beside its token`() throws {
        let payload = #"{"aps":{}}"#
        let line = #"{"token": "00", "payload": \#(payload)}"#
        #expect(try Self.input(payload).payload.get().bytes == Array(payload.utf8))
        #expect(try Self.input(line).payload.get().bytes == Array(payload.utf8))
        guard case .failure(.noPayload) = Self.input(#"{"token": "00"}"#).payload else {
            Issue.record("a line without a payload")
            return
        }
    }

    @Test func `only the payload of a line is changed`() throws {
        let line = #"{"token":"00", "payload": {"aps": {} }, "id":"é"}"#
        let text = try Self.input(line).text { payload throws(PayloadProblem) in
            try payload.minified(rules: PayloadRules(byteCountMax: .max))
        }
        #expect(text == #"{"token":"00", "payload": {"aps":{}}, "id":"é"}"#)
    }

    @Test func `the place of an error is that in the line, in code points`() throws {
        let input = Self.input(#"{"id":"é","token":"00","payload":{"aps":1}}"#)
        guard case .failure(.problem(let problem)) = input.check(.binary) else {
            Issue.record("a payload whose aps is a number")
            return
        }
        #expect(input.place(of: problem) == (7, 33 + problem.column))
        let alone = PayloadInput(alone: Array("{\n\"aps\":1}".utf8), name: "a")
        guard case .failure(.problem(let second)) = alone.check(.binary) else {
            Issue.record("a payload whose aps is a number")
            return
        }
        #expect(alone.place(of: second) == (2, second.column))
    }
}
