// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSimulator
import APNSTestKit
import APNSWire
import Batch
import Foundation
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// The exit codes, and the messages for them.
@Suite(.timeLimit(.minutes(2))) struct SendExitTests {
    let scene: SendScene

    init() throws {
        self.scene = try SendScene()
        try self.scene.write("good.jsonl", (1...3).map { SendScene.line($0) }.joined())
    }

    /// Sends three valid lines to a gateway, with additional options.
    func send(
        _ arguments: [String],
        change: (inout SimulatorConfiguration) -> Void = { _ in }
    ) async throws -> SendScene.Run {
        let scene = self.scene
        return try await SendScene.withGateway(change: change) { simulator in
            try await scene.send([scene.path("good.jsonl")] + arguments, port: simulator.gatewayPort)
        }
    }

    @Test func `a batch whose lines are all accepted exits with 0`() async throws {
        let run = try await self.send([])
        #expect(run.ending.code == 0 && run.output.isEmpty)
        #expect(run.error.contains("3 notifications") && run.error.contains("3 accepted"))
    }

    @Test func `a batch with rejections exits with 1, and a bad line is named with its number and reason`() async throws
    {
        let lines = [
            SendScene.line(1), "{\"token\":\"zz\",\"payload\":{}}\n", SendScene.line(1_000_000), SendScene.line(2),
            "no JSON\n", SendScene.line(1_000_000),
        ]
        let path = try self.scene.write("mixed.jsonl", lines.joined())
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send([path, "--results", "-"], port: simulator.gatewayPort)
            #expect(run.ending.code == 1)
            let results = try run.lines.sorted { $0.line < $1.line }
            #expect(results.map(\.line) == [1, 2, 3, 4, 5, 6])
            #expect(results.map(\.outcome).prefix(5) == ["accepted", "invalid", "rejected", "accepted", "invalid"])
            #expect(["rejected", "suppressed"].contains(results[5].outcome))
            #expect(results[1].reason != nil && results[4].reason != nil && results[2].status == 8)
            #expect(run.warned(at: path, line: 2) && run.warned(at: path, line: 5), "\(run.error)")
            #expect(try simulator.count(1) == 1 && simulator.count(2) == 1)
        }
    }

    private static let wrongCommandLines: [([String], String)] = [
        ([], "INPUT"), (["-", "--tokens", "a"], "INPUT"), (["a", "--command", "3"], "--command"),
        (["a", "--connections", "0"], "--connections"), (["a", "--window", "0"], "--window"),
        (["a", "--payload", "b", "--alert", "c"], "--payload"), (["a", "--tls-min", "2"], "--tls-min"),
        (["a", "--proxy", "ftp://a:1"], "--proxy"), (["a", "--environment", "sandbox"], "--environment"),
        (["a", "--delivery", "maybe"], "--delivery"), (["--tokens", "a"], "--tokens"),
        (["a", "--give-up-after", "0"], "--give-up-after"), (["a", "--unknown"], "--unknown"),
    ]

    @Test(arguments: TestEffort.cases(wrongCommandLines, each: 5))
    func `a wrong command line exits with 64`(_ arguments: [String], _ text: String) async throws {
        let run = try await self.scene.send(arguments, port: 1)
        #expect(run.ending.code == 64 && run.error.contains(text), "\(run.ending) \(run.error)")
    }

    @Test func `results or a journal in the input file exit with 64`() async throws {
        let input = self.scene.path("good.jsonl")
        let before = self.scene.read("good.jsonl")
        for option in ["--results", "--journal"] {
            let run = try await self.send([option, input])
            #expect(run.failed(64, .sameFile, of: input), "\(run.ending) \(run.error)")
            #expect(self.scene.read("good.jsonl") == before)
        }
    }

    @Test func `a journal that is not a regular file exits with 64`() async throws {
        mkfifo(self.scene.path("fifo"), 0o600)
        for path in ["/dev/null", self.scene.path("fifo"), self.scene.folder, "-"] {
            let run = try await self.send(["--journal", path])
            #expect(run.failed(64, naming: "--journal \(path)"), "\(path): \(run.ending) \(run.error)")
        }
    }

    @Test func `an input that is wrong as a whole exits with 65, and nothing is sent`() async throws {
        let path = try self.scene.write("bad.csv", "tokens,load\n1,2\n")
        let scene = self.scene
        let run = try await SendScene.withGateway { try await scene.send([path], port: $0.gatewayPort) }
        #expect(run.failed(65, at: path, line: 1), "\(run.ending) \(run.error)")
    }

    @Test func `a file that is not a journal exits with 65 and is not changed`() async throws {
        for text in ["one line without an end", "a line\nand another", "\n"] {
            let path = try self.scene.write("diary.txt", text)
            let run = try await self.send(["--journal", path])
            #expect(run.failed(65, .notAJournal, of: path), "\(run.ending) \(run.error)")
            #expect(self.scene.read("diary.txt") == text)
        }
    }

    @Test(arguments: ["binary", "http2"], [false, true])
    func `69 without a connection leaves each line in the results, and the next run sends it`(
        transport: String,
        hasJournal: Bool
    ) async throws {
        let scene = self.scene
        let results = scene.path("results.jsonl")
        let command =
            [scene.path("good.jsonl"), "--transport", transport, "--give-up-after", "2", "--results", results]
            + (hasJournal ? ["--journal", scene.path("journal")] : [])
        let run = try await scene.send(command + ["--host", "gateway.invalid"], port: 1)
        #expect(run.ending.code == 69 && run.error.contains("3 notifications"), "\(run.error)")
        #expect(run.error.contains("3 unsent"), "\(run.error)")
        let lines = try scene.results()
        #expect(lines.map(\.line) == [1, 2, 3] && lines.allSatisfy { $0.outcome == "unsent" && $0.attempts == 0 })
        #expect(lines.allSatisfy { $0.reason?.contains("gateway.invalid") == true }, "\(lines)")
        try await SendScene.withGateway { simulator in
            let port = transport == "http2" ? simulator.http2Port : simulator.gatewayPort
            let again = try await scene.send(command, port: port)
            #expect(again.ending.code == 0, "\(again.error)")
            #expect(try scene.results().map(\.outcome) == ["accepted", "accepted", "accepted"])
            for device in 1...3 { #expect(try simulator.count(device) == 1) }
        }
    }

    @Test(arguments: ["binary", "http2"])
    func `69 in a large batch does not read all of it, and continues at the first line`(transport: String) async throws
    {
        let path = try self.scene.write("large.jsonl", (1...10_000).map { SendScene.line($0) }.joined())
        let run = try await self.scene.send(
            [
                path, "--transport", transport, "--give-up-after", "2", "--results", self.scene.path("results.jsonl"),
                "--summary", "json",
            ],
            port: try ReservedPort().number
        )
        #expect(try run.ending.code == 69 && run.counts["continueFromLine"] == 1, "\(run)")
        let lines = try self.scene.results()
        #expect(lines.map(\.line) == Array(1...64) && lines.allSatisfy { $0.outcome == "unsent" })
    }

    @Test(arguments: [1, 3]) func `77 names the protocol of a wrong port, and nothing may have arrived`(
        connections: Int
    ) async throws {
        let scene = self.scene
        let results = scene.path("results.jsonl")
        try await SendScene.withGateway { simulator in
            // The feedback list is not empty, so the service sends a tuple.
            let device = try DeviceToken(SendScene.token(2))
            simulator.remove(device)
            _ = try await scene.send([scene.path("good.jsonl")], port: simulator.gatewayPort)
            #expect(!simulator.feedback(topic: SendScene.topic, environment: .sandbox).isEmpty)
            var ports = [(simulator.http2Port, "--transport http2")]
            // Only one connection gets the list.
            if connections == 1 {
                ports.append((simulator.feedbackPort, "feedback tuples"))
            }
            for (port, text) in ports {
                let command = [scene.path("good.jsonl"), "--results", results, "--connections", "\(connections)"]
                let run = try await scene.send(command, port: port)
                #expect(run.failed(77, .wrongProtocol, port: port) && run.error.contains(text), "\(run.error)")
                #expect(run.error.split(separator: "\n").count == 1, "\(run.error)")
                #expect(try scene.results().allSatisfy { $0.outcome == "unsent" && $0.possibleDuplicate != true })
            }
        }
    }

    @Test func `77 names the feedback port also for a batch of one line and an empty list`() async throws {
        let path = try self.scene.write("one.jsonl", SendScene.line(1))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send([path], port: simulator.feedbackPort)
            #expect(run.failed(77, .closedWithoutAnswer), "\(run.error)")
        }
    }

    @Test func `an unreadable input exits with 66`() async throws {
        for path in [self.scene.path("absent.jsonl"), self.scene.folder] {
            let run = try await self.scene.send([path], port: 1)
            #expect(run.failed(66, naming: path), "\(run.ending) \(run.error)")
        }
    }

    @Test func `a closed standard input exits with 66, and no other file takes its place`() async throws {
        let scene = self.scene
        let ending = try await SendScene.withGateway { simulator in
            let words = ["send", "-"] + scene.endpoint(simulator.gatewayPort)
            let shell = ["-c", #"exec "$0" "$@" <&-"#, try Child.program] + words
            let streams = Child.Streams(error: scene.path("err"))
            return try await Child(shell, streams, program: "/bin/sh").end()
        }
        let text = scene.read("err")
        #expect(ending.code == 66 && text.contains("standard input"), "\(ending) \(text)")
    }

    @Test func `a refused connection exits with 69 in less than half a minute`() async throws {
        let words = [self.scene.path("good.jsonl"), "--results", "-", "--log-format", "json"]
        let run = try await self.scene.send(words, port: 1)
        #expect(run.ending.code == 69 && run.ending.seconds < 30, "\(run.ending) \(run.error)")
        #expect(try run.messages.contains { $0.host == "localhost" && $0.port == 1 }, "\(run.error)")
        #expect(try run.lines.map(\.outcome) == ["unsent", "unsent", "unsent"])
        #expect(run.warned(naming: self.scene.path("good.jsonl")), "\(run.error)")
        let quick = try await self.scene.send([self.scene.path("good.jsonl"), "--give-up-after", "2"], port: 1)
        #expect(quick.ending.code == 69 && quick.ending.seconds < run.ending.seconds)
    }

    @Test func `control characters in a file name are not printed`() async throws {
        let run = try await self.scene.send([self.scene.path("a\u{1B}[31m\r\u{202E}b.jsonl")], port: 1)
        #expect(run.ending.code == 66 && run.error.contains("a<U+1B>[31m<U+D><U+202E>b.jsonl"), "\(run.error)")
        #expect(!run.error.utf8.contains { $0 < 0x20 && $0 != 0x0A })
    }

    @Test func `an output file that cannot be created exits with 73`() async throws {
        let run = try await self.send(["--results", self.scene.path("absent/results.jsonl")])
        #expect(run.failed(73, naming: self.scene.path("absent/results.jsonl")), "\(run.ending) \(run.error)")
    }

    @Test func `an output file that cannot be written exits with 74`() async throws {
        let run = try await self.send(["--results", "/dev/full"])
        #expect(run.failed(74, naming: "/dev/full"), "\(run.ending) \(run.error)")
        #expect(run.error.contains("3 accepted"), "The summary is still printed.")
    }

    @Test func `a reader of the results that goes away causes exit code 74`() async throws {
        let ends = try Self.pipe()
        close(ends.reading)
        let scene = self.scene
        let streams = Child.Streams(outputDescriptor: ends.writing, error: scene.path("err"))
        try await SendScene.withGateway { simulator in
            let arguments = ["send"] + scene.endpoint(simulator.gatewayPort)
            let child = try Child(arguments + [scene.path("good.jsonl"), "--results", "-"], streams)
            let ending = try await child.end()
            #expect(ending.code == 74, "\(ending) \(scene.read("err"))")
            #expect(scene.read("err").contains("3 notifications"))
            let summary = try Child(arguments + [scene.path("good.jsonl"), "--summary", "json"], streams)
            #expect(try await summary.end().code == 74)
        }
        close(ends.writing)
    }

    @Test func `a journal that another process uses exits with 75`() async throws {
        let path = try self.scene.write("journal", "")
        let descriptor = open(path, O_RDWR)
        defer { close(descriptor) }
        try #require(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        let run = try await self.send(["--journal", path])
        #expect(run.failed(75, naming: path), "\(run.ending) \(run.error)")
    }

    @Test func `a TLS error exits with 77 and its reason`() async throws {
        let other = try CertificateAuthority(name: "Another")
        let unknown = try self.scene.write("other.pem", other.certificatePEM)
        let expired = try SendScene.authority.get().issueClient(topic: SendScene.topic, validity: .expired)
        let expiredPath = try self.scene.write("expired.pem", expired.pem)
        let untrusted = try self.scene.write("untrusted.pem", other.issueClient(topic: SendScene.topic).pem)
        for arguments in [["--trust", unknown], ["--certificate", expiredPath], ["--certificate", untrusted]] {
            let run = try await self.send(arguments)
            #expect(run.ending.code == 77 && run.ending.seconds < 20, "\(arguments[0]): \(run.ending) \(run.error)")
            #expect(run.error.contains("ertificate"), "\(run.error)")
        }
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.run([
                "send", scene.path("good.jsonl"), "--host", "localhost", "--port", "\(simulator.gatewayPort)",
                "--trust",
                scene.path("ca.pem"),
            ])
            #expect(run.ending.code == 77, "\(run.ending) \(run.error)")
        }
    }

    @Test func `an expired or future certificate exits with 77 before any connection`() async throws {
        for (name, validity, word) in [
            ("expired.pem", .expired, "expired on 20"), ("early.pem", .future, "not valid before 20"),
        ] as [(String, CertificateAuthority.Validity, String)] {
            let client = try SendScene.authority.get().issueClient(topic: SendScene.topic, validity: validity)
            let path = try self.scene.write(name, client.pem)
            // The port is closed, which would be 69.
            let more = ["--certificate", path, "--give-up-after", "1"]
            let http2 = ["--transport", "http2"]
            for arguments in TestEffort.cases([[], ["--dry-run"], http2, http2 + ["--dry-run"]], each: 3) {
                let run = try await self.scene.send([self.scene.path("good.jsonl")] + more + arguments, port: 1)
                #expect(run.ending.code == 77, "\(arguments): \(run.ending) \(run.error)")
                #expect(run.error.contains("\(path)") && run.error.contains(word), "\(run.error)")
                #expect(run.error.split(separator: "\n").count == 1, "\(run.error)")
            }
            let allowed = more + ["--allow-expired-certificate"]
            let run = try await self.scene.send([self.scene.path("good.jsonl")] + allowed, port: 1)
            #expect(run.ending.code == (validity == .expired ? 69 : 77), "\(run.error)")
        }
    }

    @Test func `an invalid certificate, key or passphrase exits with 78`() async throws {
        let provider = try SendScene.provider.get()
        let other = try SendScene.authority.get().issueClient(topic: SendScene.topic)
        let certificate = try self.scene.write("certificate.pem", provider.certificatePEM)
        let key = try self.scene.write("other.key", other.keyPEM)
        let locked = try self.scene.write("locked.key", provider.encryptedKeyPEM(passphrase: "right"))
        let passphrase = try self.scene.write("passphrase", "wrong\n")
        for arguments in [
            ["--certificate", certificate, "--key", key],
            ["--certificate", certificate, "--key", locked, "--passphrase-file", passphrase],
            ["--certificate", self.scene.path("absent.pem")], ["--trust", self.scene.path("absent.pem")],
            ["--certificate", certificate],
        ] {
            let run = try await self.send(arguments)
            #expect(run.ending.code == 78, "\(arguments): \(run.ending) \(run.error)")
            #expect(!run.error.contains("wrong\n") && !run.error.isEmpty)
        }
        try self.scene.write("passphrase", "right\n")
        let run = try await self.send(["--certificate", certificate, "--key", locked, "--passphrase-file", passphrase])
        #expect(run.ending.code == 0, "\(run.error)")
        let bundle = try self.scene.write("provider.p12", provider.pkcs12(passphrase: "right", form: .rc2))
        let legacy = try await self.send(["--certificate", bundle, "--passphrase-file", passphrase])
        #expect(legacy.ending.code == 0, "\(legacy.error)")
    }

    static func pipe() throws -> (reading: CInt, writing: CInt) {
        var ends: [CInt] = [0, 0]
        // Other children must not inherit it, since they would keep it open.
        guard Foundation.pipe(&ends) == 0 else { throw Child.Failure(description: "There is no pipe.") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }
}
