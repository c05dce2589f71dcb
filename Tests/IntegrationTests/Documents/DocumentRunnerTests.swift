// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: an incorrect document fails its test.
///
/// Method: run correct documents, and the same documents with one mistake.
@Suite(.timeLimit(.minutes(1))) struct DocumentRunnerTests {
    private static func problems(_ document: String) async throws -> [DocumentProblem] {
        try await DocumentRun(document, deadline: 30).problems()
    }

    private static func block(_ language: String, _ text: String) -> String { "```\(language)\n\(text)\n```\n" }

    @Test func `blocks share one shell, one folder and its files, in order`() async throws {
        let document =
            "Save this as `data/names.txt`:\n\n<!-- file: data/names.txt -->\n" + Self.block("text", "b\na")
            + Self.block("sh", "name=x\nsort data/names.txt > sorted.txt")
            + "1. A list:\n\n   ```console\n   $ cat sorted.txt\n   a\n   b\n   ```\n"
            + Self.block("console", "$ printf 'a\\r\\nb\\r\\n'\na\nb")
            + Self.block("console", "$ echo $name \\\n>   y\nx y\n$ cat <<'END'\n> $name\n> END\n$name")
            + Self.block(
                "console",
                "$ ls certs-example/ca.pem; false; echo \"exit code $?\"\ncerts-example/ca.pem\nexit code 1"
            )
        #expect(try await Self.problems(document) == [])
    }

    @Test func `a program in the background is ready before the next command, and ends with the document`() async throws
    {
        let loop = "while :; do echo again; read -t 0.1 < <(:) || read -t 0.1 < <(tail -f /dev/null); done"
        let server = "(echo ready > state; echo listening; \(loop)) &"
        let document = Self.block("console", "$ \(server)\nlistening\n$ cat state; kill $!\nready")
        #expect(try await Self.problems(document) == [])
        #expect(try await Self.problems(document.replacing("\nlistening", with: "\nready")).map(\.line) == [2])
        // The pause is for human readers; a test that waited for it would exceed its time.
        #expect(try await Self.problems(document.replacing("&\n", with: "& sleep 100\n")) == [])
    }

    @Test func `a program in the background that ends at once is a problem`() async throws {
        #expect(try await Self.problems(Self.block("sh", "true\nfalse &\ntrue")).map(\.line) == [2])
    }

    @Test(arguments: [
        // The output differs, or has more or fewer lines.
        ("console", "$ echo one\ntwo", 2), ("console", "$ echo one", 2), ("console", "$ true\none", 2),
        // A file that does not exist.
        ("console", "$ true\n$ cat absent.txt; true", 3), ("sh", "true\ncat absent.txt\ntrue", 3),
        // An exit code that the document does not show.
        ("console", "$ false", 2), ("console", "$ false | true", 2), ("sh", "true\n(exit 3)\ntrue", 3),
        // The shell exits, or the command is incomplete.
        ("console", "$ exit 0", 2), ("console", "$ echo 'one", 2),
    ])
    func `a wrong block is a problem at its line`(_ language: String, _ text: String, _ line: Int) async throws {
        #expect(try await Self.problems(Self.block(language, text)).map(\.line) == [line])
    }

    @Test(arguments: [
        "```\necho one\n```\n", "```shell\necho one\n```\n", "```sh\necho one\n", "```console\necho one\n```\n",
        "```console\n$ echo \\\none\n```\n", "<!-- not run: -->\n```sh\nfalse\n```\n",
        "Text:\n<!-- file: a.txt -->\n```text\na\n```\n",
    ])
    func `a block that the test would miss is an error`(_ document: String) async throws {
        await #expect(throws: DocumentProblem.self) { try await Self.problems(document) }
    }

    @Test func `a block with a reason is not run`() async throws {
        #expect(try await Self.problems("<!-- not run: it needs root -->\n" + Self.block("sh", "false")) == [])
        #expect(try await Self.problems(Self.block("text", "false")) == [])
    }

    @Test func `another command runs in place of one that needs a build`() async throws {
        let document = "<!-- run as: echo one -->\n" + Self.block("console", "$ Scripts/absent\none")
        #expect(try await Self.problems(document) == [])
        #expect(try await Self.problems(document.replacing("\none", with: "\ntwo")).map(\.line) == [3])
    }

    @Test func `the time of a document is limited`() async throws {
        let run = try await DocumentRun(Self.block("console", "$ true\n$ tail -f /dev/null"), deadline: 1)
        #expect(try run.problems().map(\.line) == [3])
        #expect(run.isOverdue)
    }

    @Test(arguments: [
        ("in 0.03 s, 1,234/s", "in 12 ms, 9/s"), ("ends 2036-11-20T12:23:09Z", "ends 2026-01-01T00:00:00.123Z"),
        ("localhost:43901", "localhost:51234"), ("token 740f4707beb...", "token 16a1ff9b3d0..."),
        ("60 MiB", "7.5 MiB"), ("version 0.1.0", "version 1.20.3"), (#"{"seconds":0.25}"#, #"{"seconds":3}"#),
        (#""failedAt":1767608430"#, #""failedAt":1767699999"#), ("607d58b1...", "deeedbee..."),
        ("607d58b1...", "1234567d..."), ("607d58b1...", "12345678..."),
    ])
    func `random parts of the output compare equal`(_ shown: String, _ printed: String) throws {
        #expect(try OutputMask(source: "").matches([shown], [printed]))
    }

    @Test(arguments: [
        ("2 accepted", "3 accepted"), ("status 8", "status 10"), ("port 2195", "port 2196"), ("127.0.0.1", "127.0.0.2"),
        ("column 126", "column 127"), ("token 740f4707", "token 740f470"),
    ])
    func `other parts of the output are compared`(_ shown: String, _ printed: String) throws {
        #expect(try !OutputMask(source: "").matches([shown], [printed]))
        #expect(try !OutputMask(source: "").matches([shown], [shown, printed]))
    }

    @Test func `an update keeps a gap, even one for a single line`() throws {
        let mask = OutputMask(source: "")
        #expect(try mask.updated(["...", "old"], ["a", "new"]) == ["...", "new"])
        #expect(try mask.updated(["...", "old"], ["new"]) == ["new"])
    }

    @Test func `digits that the document's own commands contain are compared`() throws {
        #expect(try !OutputMask(source: "send 740f4707").matches(["740f4707"], ["16a1ff9b"]))
    }

    @Test func `a port is masked even if a token in the document contains its digits`() throws {
        let mask = OutputMask(source: "send ab33589cd --port 12495")
        #expect(try mask.matches(["port 33589"], ["port 44395"]))
        #expect(try !mask.matches(["port 12495"], ["port 44395"]))
    }

    @Test func `an ellipsis stands for any lines`() throws {
        let mask = OutputMask(source: "")
        #expect(try mask.matches(["a", "...", "d"], ["a", "b", "c", "d"]))
        #expect(try mask.matches(["a", "..."], ["a", "b"]))
        #expect(try !mask.matches(["a", "...", "d"], ["a", "b", "c"]))
        #expect(try !mask.matches(["b", "..."], ["a", "b"]))
    }

    @Test func `an update writes the current output, and leaves the rest unchanged`() async throws {
        let document =
            "# One\n\n- two:\n  ```console\n  $ printf '1 s\\nnew\\n'\n  25 s\n  old\n  ```\n"
            + Self.block("console", "$ seq 5\n1\n...\n4") + Self.block("console", "$ echo '3 s'\n4 s")
        let run = try await DocumentRun(document, deadline: 30)
        let expected = document.replacing("  old\n", with: "  new\n").replacing("...\n4", with: "...\n5")
        #expect(try run.updatedText() == expected)
    }
}
