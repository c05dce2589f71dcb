// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSServer
import APNSSimulator
import APNSTestKit
import APNSTransport
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

/// `apns-legacy feedback` as cron jobs and users run it.
@Suite(.timeLimit(.minutes(3))) struct FeedbackCommandTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    func store(_ count: Int, _ fault: Fault? = nil) throws -> ForgetfulStore {
        let store = ForgetfulStore(faults: fault.map { [$0] } ?? [])
        store.add(try (0..<count).map { try SendScene.tuple($0) })
        return store
    }

    @Test func `a drain reports its tokens in one line, and a second drain reports none`() async throws {
        let (scene, store) = (self.scene, try self.store(120))
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port, SendScene.json))
            #expect(try run.ending.code == 0 && run.messages.map(\.level) == ["info"], "\(run)")
            #expect(try ["tokens", "added", "updated", "known"].map { try run.counts[$0] } == [120, 120, 0, 0])
            #expect(!FileManager.default.fileExists(atPath: scene.purgeList + "-wal"))
            #expect(!FileManager.default.fileExists(atPath: scene.purgeList + "-shm"))
            #expect(try scene.purged().count == 120)
            let again = try await scene.run(scene.feedback(port, SendScene.json))
            #expect(try again.ending.code == 0 && again.counts["tokens"] == 0, "\(again)")
            let quiet = try await scene.run(scene.feedback(port, ["--quiet"]))
            #expect(quiet.ending.code == 0 && quiet.error.isEmpty)
        }
    }

    /// The topics of a report with the numbers of their tokens.
    private static func counts(_ text: String) -> [String] {
        text.matches(of: #/(?m)^(\S+) \(production\): ([0-9]+) /#).map { "\($0.1) \($0.2)" }
    }

    @Test func `an empty list makes its topic known, and an unread list does not`() async throws {
        let scene = self.scene
        #expect(try await scene.run(scene.feedback(1)).ending.code == 69)
        #expect(try scene.knownTopics().isEmpty)
        try await SendScene.withFeedback(ForgetfulStore()) { port in
            let run = try await scene.run(scene.feedback(port))
            #expect(run.ending.code == 0)
        }
        #expect(try scene.knownTopics() == ["com.example.app"])
    }

    @Test func `an HTTP/2 port is named, and nothing of it stays in the spool`() async throws {
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.run(scene.feedback(simulator.http2Port, SendScene.json))
            let message = LogObject(level: "error", exitCode: 77, host: "localhost", port: simulator.http2Port)
            #expect(try run.messages == [message], "\(run)")
            #expect(run.failed(77, .wrongProtocol, port: simulator.http2Port) && run.error.contains("HTTP/2"), "\(run)")
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: scene.purgeList + ".spool")
        #expect(files.filter { !$0.hasSuffix(".lock") }.isEmpty)
        #expect(try scene.knownTopics().isEmpty)
    }

    @Test func `a future timestamp does not override a registration after the drain`() async throws {
        let (scene, store) = (self.scene, ForgetfulStore())
        store.add([FeedbackTuple(token: try DeviceToken(SendScene.token(1)), failedAt: .max)])
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port))
            #expect(run.ending.code == 0 && run.error.contains("future"), "\(run.error)")
            let forgetting = try await scene.run([
                "purge", "forget", "--purge-list", scene.purgeList, "--token", SendScene.token(1), "--registered-at",
                "\(Int(Date().timeIntervalSince1970) + 1)",
            ])
            #expect(forgetting.ending.code == 0)
            #expect(try scene.purged().isEmpty, "\(forgetting)")
        }
    }

    @Test func `the line includes tokens that registered later, so that its numbers add up`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store) { port in
            #expect(try await scene.run(scene.feedback(port)).ending.code == 0)
            let forgetting = try await scene.run([
                "purge", "forget", "--purge-list", scene.purgeList, "--topic", SendScene.topic, "--token",
                SendScene.token(1), "--registered-at", "1700000000",
            ])
            #expect(forgetting.ending.code == 0, "\(forgetting.error)")
            store.add(try (0..<3).map { try SendScene.tuple($0) })
            let run = try await scene.run(scene.feedback(port))
            #expect(run.error.matches(of: /[0-9]+/).map { String($0.output) } == ["3", "0", "0", "2", "1"], "\(run)")
        }
    }

    @Test(arguments: ["text", "csv", "jsonl"]) func `it prints the tokens`(_ format: String) async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port, ["--output", format]))
            #expect(run.ending.code == 0)
            let lines = run.output.split(whereSeparator: \.isNewline)
            #expect(lines.count == (format == "csv" ? 4 : 3))
            for number in 0..<3 { #expect(lines.contains { $0.contains(SendScene.token(number)) }) }
            #expect(format == "text" || run.output.contains("1600000002"))
        }
    }

    @Test func `after the next notification, an uninstalled device is on the purge list`() async throws {
        let scene = self.scene
        try scene.write("batch.jsonl", (1...5).map { SendScene.line($0) }.joined())
        try await SendScene.withGateway { simulator in
            #expect(
                simulator.remove(try DeviceToken(SendScene.token(4)), at: Timestamp(secondsSince1970: 1_700_000_000))
            )
            let before = try await scene.run(scene.feedback(simulator.feedbackPort, SendScene.json))
            #expect(try before.ending.code == 0 && before.counts["tokens"] == 0)
            let sent = try await scene.send([scene.path("batch.jsonl")], port: simulator.gatewayPort)
            #expect(sent.ending.code == 0)
            let run = try await scene.run(scene.feedback(simulator.feedbackPort, SendScene.json))
            #expect(try run.ending.code == 0 && ["tokens", "added"].map { try run.counts[$0] } == [1, 1])
            #expect(try scene.purged() == [try DeviceToken(SendScene.token(4)).bytes])
            #expect(simulator.feedback(topic: SendScene.topic, environment: .sandbox).isEmpty)
        }
    }

    @Test func `an incomplete tuple exits with 65`() async throws {
        let (scene, store) = (self.scene, try self.store(3, Fault(at: .always, .cutList(byteCount: 100))))
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port))
            #expect(run.failed(65, naming: "24 bytes", scene.spool), "\(run.error)")
            #expect(try scene.purged().count == 2)
            #expect(!run.error.contains(SendScene.token(0)))
        }
    }

    @Test func `a damaged spool exits with 65, and every token before the damage is on the list`() async throws {
        let pace = TransferPace(byteCount: 400 * 38, interval: .milliseconds(10))
        let (scene, store) = (self.scene, try self.store(1200, Fault(at: .always, .slowWriting(pace))))
        try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let child = try Child(scene.feedback(port, ["--silence", "60s"]), Child.Streams(error: scene.path("err")))
            try await eventually("all is in the spool") { scene.spooled().count == 1200 }
            child.send(SIGKILL)
            _ = try await child.end()
            let name = try #require(scene.spoolNames.first)
            var bytes = [UInt8](try #require(FileManager.default.contents(atPath: scene.spool + "/" + name)))
            bytes[bytes.count - 5] ^= 1
            try Data(bytes).write(to: URL(filePath: scene.spool + "/" + name))
            let run = try await scene.run(scene.feedback(port, ["--silence", "50ms"]))
            #expect(run.ending.code == 65, "\(run)")
            #expect(scene.spoolNames.map { $0.hasSuffix(".damaged") } == [true], "\(scene.spoolNames)")
            let count = try scene.purged().count
            #expect(count >= 20 && count < 1200 && run.failed(65, naming: ".damaged", " \(count) "), "\(run)")
            #expect(try await scene.run(scene.feedback(1)).ending.code == 69)
        }
    }

    @Test func `a list that ends without close_notify exits with 69, unless that is expected`() async throws {
        let (scene, byteCount) = (self.scene, 3 * 38)
        for (more, code) in [([], 69), (["--without-close-notify"], 0)] as [([String], Int32)] {
            let cut = Fault(at: .always, .cutList(byteCount: byteCount), report: FaultReport(ending: .fin))
            let store = try self.store(4, cut)
            try await SendScene.withFeedback(store) { port in
                let run = try await scene.run(scene.feedback(port, more + ["--summary", "json"]))
                #expect(try run.ending.code == code && run.counts["tokens"] == 3, "\(run)")
            }
        }
    }

    @Test(arguments: [[], ["--without-close-notify"], ["--quiet"]])
    func `a service that closes without sending anything exits with 77`(_ more: [String]) async throws {
        let cut = Fault(at: .always, .cutList(byteCount: 0), report: FaultReport(ending: .fin))
        let (scene, store) = (self.scene, try self.store(4, cut))
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port, more))
            #expect(run.failed(77, FeedbackError.refused(Endpoint(host: "localhost", port: port))), "\(run)")
        }
    }

    @Test func `a list longer than --max-bytes exits with 75, and its first part is on the list`() async throws {
        let pace = TransferPace(byteCount: 1000, interval: .milliseconds(10))
        let (scene, store) = (self.scene, try self.store(4000, Fault(at: .always, .slowWriting(pace))))
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port, ["--max-bytes", "5001", "--summary", "json"]))
            #expect(run.ending.code == 75 && run.error.contains("--max-bytes"), "\(run)")
            #expect(try run.counts["tokens"] == scene.purged().count && scene.spoolNames.isEmpty, "\(run)")
            #expect(try scene.purged().count >= 5001 / 38)
            let wrong = try await scene.run(scene.feedback(port, ["--max-bytes", "0"]))
            #expect(wrong.ending.code == 64 && wrong.error.contains("--max-bytes"))
        }
    }

    @Test func `a refused connection exits with 69`() async throws {
        let run = try await self.scene.run(self.scene.feedback(1))
        #expect(run.ending.code == 69 && run.error.contains("localhost:1"), "\(run.error)")
    }

    @Test func `a service that sends nothing and stays open exits with 69, unless that is expected`() async throws {
        let (scene, store) = (self.scene, try self.store(0))
        try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let run = try await scene.run(scene.feedback(port, ["--quiet"]))
            #expect(run.failed(69, naming: "port \(port)", "2196", "--silence 5s"), "\(run.error)")
            let expected = try await scene.run(scene.feedback(port, ["--silence", "100ms"]))
            #expect(expected.ending.code == 0 && expected.error.contains("stopped sending"), "\(expected.error)")
            store.add([try SendScene.tuple(1)])
            let some = try await scene.run(scene.feedback(port, ["--summary", "json"]))
            #expect(try some.ending.code == 0 && some.counts["tokens"] == 1, "\(some)")
        }
    }

    @Test func `a certificate for another app exits with 78 before connecting`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port, ["--topic", "com.example.other"]))
            #expect(run.failed(78, naming: "com.example.app", "com.example.other") && store.taken.isEmpty, "\(run)")
            let own = try await scene.run(scene.feedback(port, ["--topic", "com.example.app"]))
            #expect(own.ending.code == 0 && store.taken.count == 1, "\(own.error)")
        }
    }

    @Test func `an expired certificate exits with 77 before connecting, and others are still used`()
        async throws
    {
        let (scene, store) = (self.scene, try self.store(3))
        let old = try SendScene.authority.get().issueClient(topic: SendScene.topic, validity: .expired)
        let path = try scene.write("old.pem", old.pem)
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run([
                "feedback", "--host", "localhost", "--port", "\(port)", "--trust", scene.path("ca.pem"),
                "--purge-list", scene.purgeList, "--certificate", path, "--certificate", scene.path("provider.pem"),
                "--summary", "json",
            ])
            #expect(run.failed(77, naming: path) && store.taken.count == 1, "\(run)")
            #expect(try run.counts["tokens"] == 3, "\(run)")
        }
    }

    @Test func `an invalid topic exits with 64 before connecting`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        // It names no topic, so --topic may be any.
        try scene.write("nameless.pem", try SendScene.authority.get().issueServer().pem)
        try await SendScene.withFeedback(store) { port in
            for topic in ["", String(repeating: "x", count: 256), "a\nb"] {
                let run = try await scene.run([
                    "feedback", "--host", "localhost", "--port", "\(port)", "--trust", scene.path("ca.pem"),
                    "--certificate", scene.path("nameless.pem"), "--purge-list", scene.purgeList, "--topic", topic,
                ])
                #expect(run.failed(64, naming: "--topic"), "\(run.error)")
            }
            #expect(store.taken.isEmpty && scene.spooled().isEmpty)
        }
    }

    @Test func `errors name the option that helps, and name a file only once`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        let provider = try SendScene.authority.get().issueClient(topic: "com.example.app")
        let path = scene.path("provider.p12")
        try Data(try provider.pkcs12(passphrase: "secret")).write(to: URL(filePath: path))
        try await SendScene.withFeedback(store) { port in
            let common = ["feedback", "--host", "localhost", "--port", "\(port)", "--purge-list", scene.purgeList]
            let locked = try await scene.run(common + ["--certificate", path])
            #expect(locked.ending.code == 78 && locked.error.contains("--passphrase-file FILE"), "\(locked.error)")
            let nope = try await scene.run(common + ["--certificate", scene.path("nope.pem")])
            #expect(nope.ending.code == 78 && nope.error.components(separatedBy: "nope.pem").count == 2, "\(nope)")
            let distrusted = try await scene.run(common + ["--certificate", scene.path("provider.pem")])
            #expect(distrusted.ending.code == 77 && distrusted.error.contains("--trust FILE"), "\(distrusted.error)")
        }
    }

    @Test func `a service certificate for another host exits with 77`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        let other = try SendScene.authority.get().issueServer(names: ["other.example"])
        try await SendScene.withFeedback(store, { $0.identity = other.identity }) { port in
            let run = try await scene.run(scene.feedback(port))
            #expect(run.ending.code == 77 && run.error.contains("other.example"), "\(run.error)")
        }
    }

    @Test func `one failed certificate does not prevent the use of the others`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try scene.write("broken.pem", "no certificate")
        let other = try SendScene.authority.get().issueClient(topic: "com.example.other")
        try scene.write("other.pem", other.pem)
        try await SendScene.withFeedback(store) { port in
            let arguments = [
                "feedback", "--host", "localhost", "--port", "\(port)", "--trust", scene.path("ca.pem"),
                "--purge-list", scene.purgeList, "--certificate", scene.path("broken.pem"),
                "--certificate", scene.path("other.pem"), "--certificate", scene.path("provider.pem"),
            ]
            let run = try await scene.run(arguments)
            #expect(run.failed(78, naming: "broken.pem") && store.taken.count == 2, "\(run.error)")
            #expect(Self.counts(run.error) == ["com.example.other 3", "com.example.app 0"], "\(run.error)")
        }
    }

    @Test func `the certificates of a folder are used in order, and other files are ignored`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        let folder = scene.path("certificates")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let authority = try SendScene.authority.get()
        try scene.write("certificates/b.pem", try authority.issueClient(topic: "b").pem)
        // A key next to its certificate, as in certs-example, and a certificate with a name like that of a key.
        let apart = try authority.issueClient(topic: "a")
        try scene.write("certificates/a.pem", apart.certificatePEM)
        try scene.write("certificates/a.key.pem", apart.keyPEM)
        try scene.write("certificates/c.key.pem", try authority.issueClient(topic: "c").pem)
        try scene.write("certificates/README", "hello")
        try await SendScene.withFeedback(store) { port in
            let arguments = [
                "feedback", "--host", "localhost", "--port", "\(port)", "--trust", scene.path("ca.pem"),
                "--purge-list", scene.purgeList, "--certificates", folder,
            ]
            let run = try await scene.run(arguments)
            #expect(run.ending.code == 0 && Self.counts(run.error) == ["a 3", "b 0", "c 0"], "\(run.error)")
        }
    }

    @Test func `a drain that takes longer than a second shows its progress`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        let terminal = try Terminal()
        let ending = try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            try await Child(scene.feedback(port, ["--silence", "2s"]), terminal.streams()).end()
        }
        let text = await terminal.text()
        let screen = try TerminalScreen(text, columnCount: 200).text
        #expect(ending.code == 0 && text.contains("\r\u{1B}[K114 bytes read"), "\(ending) \(text)")
        #expect(Self.counts(screen) == ["com.example.app 3"] && !screen.contains("bytes read"), "\(screen)")
    }

    @Test func `a signal clears what a drain shows, before each message`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        let terminal = try Terminal()
        let ending = try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let child = try Child(scene.feedback(port, ["--silence", "3s"]), terminal.streams())
            try await eventually("progress is shown") { terminal.textSoFar.contains("\r\u{1B}[K114 bytes read") }
            // Two at once are one request, so the list is read to its end.
            child.send(SIGTERM)
            child.send(SIGINT)
            return try await child.end()
        }
        let screen = try TerminalScreen(await terminal.text(), columnCount: 200).text
        #expect(ending.code == 0 && screen.hasPrefix("Stopping: "), "\(ending) \(screen)")
        #expect(Self.counts(screen) == ["com.example.app 3"] && !screen.contains("bytes read"), "\(screen)")
    }

    @Test func `a concurrent drain exits with 75 and names the first process, which continues`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let streams = Child.Streams(error: scene.path("first"))
            let first = try Child(scene.feedback(port, ["--silence", "1h", "--deadline", "1h"]), streams)
            for await _ in store.opened { break }
            for _ in 0..<2 {
                let second = try await scene.run(scene.feedback(port))
                #expect(second.failed(75, naming: "process \(first.pid)"), "\(second.error)")
            }
            #expect(!first.hasEnded && store.taken.count == 1)
            // The first signal waits for the drain, the second ends it; tokens read so far are kept.
            first.send(SIGTERM)
            try await eventually("the signal is reported") { scene.read("first").contains("Stopping: ") }
            first.sendAnother(SIGINT)
            let ending = try await first.end()
            #expect(ending.code == 75, "\(ending) \(scene.read("first"))")
            #expect(try scene.purged().count == 3)
            #expect(scene.read("first").contains("Stopped at once"))
        }
    }

    @Test func `a concurrent drain of the same certificate to another list and spool exits with 75`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let first = try Child(scene.feedback(port, ["--silence", "1h"]), Child.Streams())
            for await _ in store.opened { break }
            let second = try await scene.run(
                ["feedback"] + scene.endpoint(port) + ["--purge-list", scene.path("other.sqlite")]
            )
            #expect(second.failed(75, naming: "process \(first.pid)"), "\(second.error)")
            #expect(!first.hasEnded && store.taken.count == 1)
            first.send(SIGKILL)
            _ = try await first.end()
        }
    }

    @Test func `after a signal, exit code 75 comes with the names of the unused certificates`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try scene.write("other.pem", try SendScene.authority.get().issueClient(topic: "com.example.other").pem)
        try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let streams = Child.Streams(error: scene.path("error"))
            let more = ["--certificate", scene.path("other.pem"), "--silence", "1s"]
            let child = try Child(scene.feedback(port, more), streams)
            for await _ in store.opened { break }
            child.send(SIGTERM)
            let ending = try await child.end()
            let said = scene.read("error")
            #expect(ending.code == 75 && store.taken.count == 1, "\(ending) \(said)")
            #expect(Self.counts(said) == ["com.example.app 3"] && said.contains("Stopping: "), "\(said)")
            #expect(said.contains("com.example.other (production)"), "\(said)")
        }
    }

    @Test func `a daemon drains, keeps to its schedule, and exits with 0 after a signal`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store) { port in
            let streams = Child.Streams(error: scene.path("daemon"))
            let daemon = try Child(scene.feedback(port, ["--every", "1h"]), streams)
            for await _ in store.opened { break }
            daemon.send(SIGTERM)
            let ending = try await daemon.end()
            #expect(ending.code == 0 && Self.counts(scene.read("daemon")) == ["com.example.app 3"])
            let next = try String(contentsOfFile: scene.spool + "/com.example.app_production.next", encoding: .utf8)
            let seconds = try #require(Double(next.dropLast())) - Date().timeIntervalSince1970
            #expect((3200...4000).contains(seconds))
        }
    }

    @Test func `SIGKILL of a daemon leaves no lock behind`() async throws {
        let (scene, store) = (self.scene, try self.store(3))
        try await SendScene.withFeedback(store, { $0.closesBehindList = false }) { port in
            let first = try Child(scene.feedback(port, ["--silence", "1h"]), Child.Streams())
            for await _ in store.opened { break }
            first.send(SIGKILL)
            _ = try await first.end()
            let second = try await scene.run(scene.feedback(port, ["--silence", "100ms"]))
            #expect(second.ending.code == 0, "\(second.error)")
        }
    }
}
