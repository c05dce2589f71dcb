// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

@Suite struct PayloadKeyTests {
    @Test(arguments: PayloadKey.allCases)
    func `a known key accepts the kinds of the reference and no other`(_ key: PayloadKey) throws {
        let allowed = try #require(PayloadKeyTable.kinds[key.description])
        for (kind, value) in PayloadKeyTable.samples {
            let problem = payloadProblem(PayloadKeyTable.payload(key.description, value))
            if allowed.contains(kind) {
                #expect(problem == nil)
            } else {
                guard case .wrongKind(key, found: _, allowed: key.kinds)? = problem?.kind else {
                    Issue.record("\(key) took \(kind): \(String(describing: problem))")
                    continue
                }
            }
        }
    }

    @Test func `the keys of the reference are all known, and no others`() {
        #expect(Set(PayloadKey.allCases.map(\.description)) == Set(PayloadKeyTable.kinds.keys))
    }

    @Test(arguments: PayloadKey.allCases)
    func `a known key may occur only once`(_ key: PayloadKey) throws {
        let kind = try #require(PayloadKeyTable.kinds[key.description]?.first)
        let value = try #require(PayloadKeyTable.samples[kind])
        let parts = key.description.split(separator: ".").map(String.init)
        let name = try #require(parts.last)
        let inner = "\"\(name)\":\(value)"
        let twice = parts.dropLast().reversed().reduce("{\(inner),\(inner)}") { "{\"\($1)\":\($0)}" }
        #expect(payloadProblem(twice)?.kind == .duplicateKey(key))
    }

    @Test(arguments: PayloadKey.allCases)
    func `a name that resembles a known key passes with any value`(_ key: PayloadKey) throws {
        let parts = key.description.split(separator: ".").map(String.init)
        let name = try #require(parts.last)
        for index in name.indices {
            var near = name
            near.replaceSubrange(index...index, with: "_")
            for other in [near, name + "_", String(name[..<index])] {
                let path = (parts.dropLast() + [other]).joined(separator: ".")
                guard PayloadKeyTable.kinds[path] == nil else { continue }
                let payload = parts.dropLast().reversed().reduce("{\"\(other)\":[1]}") { "{\"\($1)\":\($0)}" }
                #expect(payloadProblem(payload) == nil, "\(payload)")
            }
        }
    }

    @Test(arguments: [PayloadKey.urlArguments, .alertLocArguments, .alertTitleLocArguments, .alertSubtitleLocArguments])
    func `an array of strings accepts only strings`(_ key: PayloadKey) {
        for (kind, value) in PayloadKeyTable.samples where kind != "string" {
            let problem = payloadProblem(PayloadKeyTable.payload(key.description, "[\"a\", \(value)]"))
            guard case .wrongElementKind(key, found: _)? = problem?.kind else {
                Issue.record("\(key) took \(kind): \(String(describing: problem))")
                continue
            }
        }
        #expect(payloadProblem(PayloadKeyTable.payload(key.description, "[]")) == nil)
    }
}
