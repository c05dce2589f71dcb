// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import Foundation
import Testing

/// `apns-legacy payload`.
@Suite(.timeLimit(.minutes(1))) struct PayloadCommandTests {
    private static let batch = """
        {"token":"\(SendScene.token(1))","payload":{"aps": {"alert":"Hello world, this is long"}}}
        {"aps":{"alert":{"loc-key":"K","loc-args":["tea"]}}}

        rubbish
        {"token":"\(SendScene.token(2))"}

        """

    @Test func `check reports invalid payloads, and warns of probable mistakes`() async throws {
        let scene = try SendScene()
        let good = try scene.write("good.json", #"{"aps": {"bagde":1}}"#)
        let run = try await CommandRun(["payload", "check", good])
        #expect(run.code == 0 && run.error.isEmpty)
        #expect(
            run.output == """
                \(good): 20 bytes, 19 minified; at most 2048
                \(good): warning: aps.bagde is unknown; did you mean aps.badge?

                """
        )
        #expect(try await CommandRun(["payload", "check", good, "--strict"]).code == 1)
        let bad = try scene.write("bad.json", #"{"aps":{"badge":"1"}}"#)
        let refused = try await CommandRun(["payload", "check", bad])
        #expect(refused.code == 1)
        #expect(refused.output == "\(bad), line 1, column 17: aps.badge is a string, expected a number\n", "\(refused)")
        // White space does not count, since apns-legacy send removes it.
        let long = try scene.write("long.json", #"{"aps":{"alert":""# + String(repeating: "a", count: 300) + #""}}"#)
        let tooLong = try await CommandRun(["payload", "check", long, "--payload-max", "256"])
        #expect(tooLong.code == 1 && tooLong.output.contains("has 320 bytes, the limit is 256"), "\(tooLong)")
    }

    @Test func `a batch is checked line by line, with the column of the line`() async throws {
        let scene = try SendScene()
        let path = try scene.write("batch.jsonl", Self.batch)
        let run = try await CommandRun(["payload", "check", path])
        #expect(run.code == 1)
        #expect(
            run.output == """
                \(path), line 4, column 1: expected an object
                \(path), line 5: missing payload
                4 payloads: 2 would be refused, 0 warnings

                """
        )
        let line = "{\"token\":\"\(SendScene.token(1))\",\"payload\":{\"aps\":[]}}\n"
        let column = try await CommandRun(["payload", "check", try scene.write("one.jsonl", line)])
        let place = line.distance(from: line.startIndex, to: try #require(line.firstIndex(of: "["))) + 1
        #expect(column.output.contains("line 1, column \(place): aps is an array"), "\(column)")
        let json = try await CommandRun(["payload", "check", path, "--summary", "json"])
        let objects = try json.output.split(separator: "\n").dropLast().map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
        #expect(objects.map { $0["line"] as? Int } == [1, 2, 4, 5])
        #expect(objects.map { $0["problem"] is NSNull } == [true, true, false, false])
        #expect(try await CommandRun(["payload", "check", "--jsonl"]).code == 65)
    }

    @Test func `minify and truncate change payloads, and no line of a batch is lost`() async throws {
        let scene = try SendScene()
        let path = try scene.write("batch.jsonl", Self.batch)
        let run = try await CommandRun(["payload", "truncate", path, "--to", "50"])
        #expect(run.code == 1)
        #expect(
            run.output == """
                {"token":"\(SendScene.token(1))","payload":{"aps": {"alert":"Hello world, this is long"}}}
                {"aps":{"alert":{"loc-key":"K","loc-args":["tea"]}}}
                rubbish
                {"token":"\(SendScene.token(2))"}

                """
        )
        #expect(run.warned(at: path, line: 2, column: 53, naming: "52 bytes", "50"), "\(run)")
        let short = try await CommandRun(["payload", "truncate", path, "--to", "36"])
        let line = #"{"token":"\#(SendScene.token(1))","payload":{"aps":{"alert":"Hello world,…"}}}"#
        #expect(short.output.hasPrefix(line), "\(short)")
        let spaced = try scene.write("spaced.json", "{ \"aps\" : { \"alert\" : \"a b\" } }\n")
        let minified = try await CommandRun(["payload", "minify", spaced])
        #expect(minified.code == 0 && minified.output == "{\"aps\":{\"alert\":\"a b\"}}\n")
        #expect(try await CommandRun(["payload", "truncate", spaced]).code == 64)
        #expect(try await CommandRun(["payload", "minify", scene.path("missing")]).code == 66)
    }

    @Test func `a line that is not text is kept in its batch`() async throws {
        let scene = try SendScene()
        let path = scene.path("bytes.jsonl")
        try Data(Array("{\"aps\": {}}\n{\"aps\":\"".utf8) + [0xFF, 0xFE] + Array("\"}\n{ }\n".utf8)).write(
            to: URL(filePath: path)
        )
        let run = try await CommandRun(["payload", "minify", path])
        #expect(run.code == 1 && run.warned(at: path, line: 2), "\(run)")
        #expect(run.output == "{\"aps\":{}}\n{\"aps\":\"\u{FFFD}\u{FFFD}\"}\n{}\n", "\(run)")
    }

    @Test func `names are printed without control characters, and invalid JSON is not treated as a value`()
        async throws
    {
        let scene = try SendScene()
        for text in ["not json", "token payload"] {
            let path = try scene.write("a\u{1B}[2J.json", text)
            let run = try await CommandRun(["payload", "check", path])
            #expect(
                run.code == 1 && run.output.contains("a<U+1B>[2J.json, line 1, column 1: expected an object"),
                "\(run)"
            )
            #expect(!run.output.contains("\u{1B}"))
        }
    }

    @Test func `size reports which protocols accept a payload`() async throws {
        let scene = try SendScene()
        let text = "{\"aps\": {\"alert\":\"" + String(repeating: "a", count: 2030) + "\"}}"
        let path = try scene.write("payload.json", text)
        let run = try await CommandRun(["payload", "size", path])
        #expect(run.code == 0)
        #expect(
            run.output == """
                \(path): 2,051 bytes, 2050 minified
                          256 binary protocol before 2014: too long by 1794 minified
                        2,048 binary protocol: too long by 2 minified
                        4,096 HTTP/2: fits
                        5,120 HTTP/2, VoIP: fits

                """
        )
    }

    @Test func `preview shows what a device would, without control characters`() async throws {
        let scene = try SendScene()
        let strings = try scene.write("Localizable.strings", "\"K\" = \"Your %@ is ready\";\n")
        let payload = #"{"aps":{"alert":{"title":"A\u001b[2J","loc-key":"K","loc-args":["tea"]},"badge":0}}"#
        let path = try scene.write("payload.json", payload)
        let run = try await CommandRun(["payload", "preview", path, "--strings", strings])
        #expect(run.output == "  A<U+1B>[2J\n  Your tea is ready\nThe badge is removed.\n", "\(run)")
        let without = try await CommandRun(["payload", "preview", path])
        #expect(without.output.contains("  K\nThere is no text for K.\n"))
        let bad = try scene.write("bad.strings", "\"K\" = \"a\";\n\"L\" \"b\";\n")
        let failed = try await CommandRun(["payload", "preview", path, "--strings", bad])
        #expect(failed.failed(65, at: bad, line: 2), "\(failed)")
        let silent = try scene.write("silent.json", #"{"aps":{"content-available":1}}"#)
        let shown = try await CommandRun(["payload", "preview", silent])
        #expect(shown.output == "The app is woken in the background, and nothing is shown.\n")
    }

    @Test func `build creates a payload from options, and rejects invalid ones`() async throws {
        let run = try await CommandRun([
            "payload", "build", "--title", "Order", "--alert", "It \"left\"", "--badge", "2", "--sound", "default",
            "--custom", "order=1234", "--custom", "note=a=b", "--custom", #"list=[1,{"a":null}]"#,
        ])
        #expect(run.code == 0 && run.error.isEmpty)
        #expect(
            run.output
                == #"{"aps":{"alert":{"title":"Order","body":"It \"left\""},"badge":2,"sound":"default"},"#
                + #""list":[1,{"a":null}],"note":"a=b","order":1234}"# + "\n"
        )
        let long = String(repeating: "a", count: 300)
        let refused = try await CommandRun(["payload", "build", "--alert", long, "--payload-max", "256"])
        #expect(refused.code == 65 && refused.output.isEmpty)
        for words in [["--custom", "aps=1"], ["--custom", "x"], ["--alert", "a", "--loc-key", "b"], ["--badge=-1"]] {
            #expect(try await CommandRun(["payload", "build"] + words).code == 64, "\(words)")
        }
        let empty = try await CommandRun(["payload", "build"])
        #expect(empty.code == 0 && empty.diagnostics.map(\.level) == [.warning], "\(empty)")
    }
}
