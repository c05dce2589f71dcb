// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

/// Goal: unchanged scripts from tutorials of 2012 send through the gateway with the files of `gateway init` for their
/// language, with the commands of docs/gateway.md.
@Suite(.timeLimit(.minutes(2)), .serialized) struct GatewayDocumentTests {
    /// A sent or received notification: token and payload.
    private struct Message: Hashable {
        var token: String
        var payload: String
    }

    private struct Answer: Decodable {
        struct Notification: Decodable {
            var token: String
            var payloadText: String
            var outcome: String
            var topic: String
        }
        var notifications: [Notification]
    }

    /// The notifications that a script reports as written.
    private static func written(_ output: String) throws -> [Message] {
        try output.split(separator: "\n").filter { $0.hasPrefix("wrote ") }.map { line in
            let digits = Array(line.dropFirst(6).utf8)
            let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
                UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)
            }
            var buffer = ByteBuffer(bytes: bytes)
            let frame = try #require(try NotificationFrame(parsing: &buffer), "\(line)")
            #expect(buffer.readableBytes == 0)
            return Message(token: frame.token?.hexadecimal ?? "", payload: String(buffer: frame.payload))
        }
    }

    /// The notifications in the simulator's record.
    private static func received(_ output: String) throws -> [Answer.Notification] {
        try JSONDecoder().decode(Answer.self, from: Data(output.utf8)).notifications
    }

    private static func messages(_ notifications: [Answer.Notification]) -> [Message] {
        notifications.map { Message(token: $0.token, payload: $0.payloadText) }
    }

    /// The commands of a document behind a mark.
    private static func documentCommands(
        _ path: String = "docs/gateway.md",
        behind mark: String = "<!-- ten commands -->\n",
        language: String = "sh"
    ) throws -> [String] {
        let document = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appending(path: path)
        let text = try String(contentsOf: document, encoding: .utf8)
        let mark = try #require(text.range(of: mark))
        let start = try #require(text.range(of: "\n```\(language)\n", range: mark.lowerBound..<text.endIndex))
        let end = try #require(text.range(of: "```", range: start.upperBound..<text.endIndex))
        return text[start.upperBound..<end.lowerBound].split(separator: "\n").map(String.init)
    }

    private static func wait(_ count: Int) -> String {
        "curl -s 'http://127.0.0.1:8090/notifications?text=Hello&outcome=any&count=\(count)&wait=10s'"
    }

    @Test func `ten commands lead from the package to a notification of an unchanged PHP script`() async throws {
        var commands = try Self.documentCommands()
        #expect(commands.count <= 10)
        try #require(commands.first?.hasPrefix("apt install -y ./apns-legacy_") == true)
        commands.removeFirst()
        // The test waits for background commands; people simply wait some time.
        commands = commands.map { $0.replacing(#/ & sleep \d$/#, with: " &") }
        #expect(commands.count { $0.hasSuffix(" &") } == 2)
        let count = commands.count
        // Another script instead of the first one.
        let php = try #require(commands.first { $0.hasPrefix("php ") })
        commands += [php.replacing("push.php", with: "push-enhanced.php"), Self.wait(3)]
        let machine = try PrivateMachine(scripts: ["push.php", "push-enhanced.php"])
        let output = try await machine.run(commands.map { PrivateMachine.Command(text: $0) })
        let simple = try Self.received(output[count - 1])
        #expect(Self.messages(simple) == (try Self.written(output[count - 2])), "\(output)")
        #expect(simple.map(\.outcome) == ["accepted"] && simple.map(\.topic) == ["com.example.app"])
        let all = try Self.received(output[count + 1])
        #expect(Self.messages(all) == (try Self.written(output[count - 2]) + Self.written(output[count])), "\(output)")
        #expect(all.count == 3)
    }

    @Test func `the commands of the recipes lead to notifications of a pass server`() async throws {
        var commands = try Self.documentCommands("docs/recipes/README.md", behind: "From nothing to a delivered")
        #expect(
            commands.count <= 6 && commands.contains { $0.contains("gateway init") && $0.contains("--client wallet") }
        )
        let program = try #require(commands.firstIndex(of: "your-program"))
        commands[program] = "bash pass-server.sh"
        commands = commands.map { $0.replacing(#/ & sleep \d$/#, with: " &") }
        let request = commands.removeLast()
        commands.append(request.replacing("/notifications", with: "/notifications?outcome=any\\&count=3\\&wait=10s"))
        let output = try await PrivateMachine(scripts: ["pass-server.sh"])
            .run(commands.map { PrivateMachine.Command(text: $0) })
        let received = try Self.received(output[commands.count - 1])
        #expect(
            received.map(\.payloadText) == ["{}", "{}", "{}"] && received.allSatisfy { $0.topic.hasPrefix("pass.") }
        )
        #expect(received.map(\.outcome) == ["accepted", "accepted", "accepted"], "\(output)")
    }

    @Test func `the configuration of OpenSSL for old programs has its effect`() async throws {
        let lines = try Self.documentCommands("docs/recipes/sip.md", behind: "`OPENSSL_CONF`", language: "text")
        let level = """
            import ctypes as c
            s = c.CDLL("libssl.so.3")
            s.TLS_method.restype = s.SSL_CTX_new.restype = c.c_void_p
            s.SSL_CTX_new.argtypes = s.SSL_CTX_get_security_level.argtypes = [c.c_void_p]
            print(s.SSL_CTX_get_security_level(s.SSL_CTX_new(s.TLS_method())))
            """
        let texts = [
            "cat > openssl.cnf <<'END'\n\(lines.joined(separator: "\n"))\nEND", "cat > level.py <<'END'\n\(level)\nEND",
            "bash -c 'echo; exec sleep 60' &", "OPENSSL_CONF=openssl.cnf python3 level.py",
        ]
        let output = try await PrivateMachine(scripts: []).run(texts.map { PrivateMachine.Command(text: $0) })
        #expect(output.last == "0\n", "\(output)")
    }

    @Test(.enabled(if: geteuid() == 0, "only root may write to /etc"))
    func `for the package's unit, the group apns-legacy may read what the gateway and its test need, and nothing else`()
        async throws
    {
        let user = "setpriv --reuid=4711 --regid=4711 --clear-groups"
        let commands = [
            "apns-legacy simulator --folder apns --http2-port 2197 &",
            "cp -a /etc etc && mkdir -p etc/apns-legacy && mount --bind etc /etc && mount -t tmpfs none /var/lib",
            "echo apns-legacy:x:4711: >> /etc/group && echo apns-legacy:x:4711:4711::/:/bin/false >> /etc/passwd",
            "umask 077 && apns-legacy gateway init --client java --environment sandbox "
                + "--upstream-certificate apns/provider-combined.pem --upstream-host localhost --upstream-port 2197 "
                + "--upstream-trust apns/authority.pem",
            "apns-legacy gateway check --config /etc/apns-legacy/gateway.yaml",
            "(cd /etc/apns-legacy && stat -c '%n %a %G' * /var/lib/apns-legacy/gateway)",
            "(cd /etc/apns-legacy && \(user) cat gateway.yaml server.pem server.key.pem upstream.pem authority.pem)",
            "! \(user) cat /etc/apns-legacy/authority.key.pem",
            "\(user) apns-legacy gateway run --config /etc/apns-legacy/gateway.yaml &",
            "\(user) apns-legacy gateway test --config /etc/apns-legacy/gateway.yaml 2>&1",
        ]
        let machine = try PrivateMachine(scripts: [])
        let output = try await machine.run(commands.map { PrivateMachine.Command(text: $0) })
        #expect(output[3].contains("systemctl enable --now apns-legacy-gateway"), "\(output)")
        #expect(output[3].contains("runuser -u apns-legacy -- apns-legacy gateway check --config /etc"), "\(output)")
        #expect(output[4].contains("feedback database /var/lib/apns-legacy/gateway/feedback.sqlite"), "\(output)")
        #expect(
            output[5].split(separator: "\n").sorted() == [
                "/var/lib/apns-legacy/gateway 700 apns-legacy", "NEXT-STEPS.txt 644 root",
                "authority.key.pem 600 root", "authority.pem 644 root",
                "gateway.yaml 644 root", "hosts 644 root", "provider-legacy.p12 640 apns-legacy",
                "provider-passphrase.txt 640 apns-legacy", "server.key.pem 640 apns-legacy", "server.pem 644 root",
                "upstream-authority.pem 644 root", "upstream.pem 640 apns-legacy",
            ]
        )
        #expect(output[9].contains("The service accepted the notification"), "\(output)")
    }

    /// A script, its command, and its input.
    struct Tutorial: CustomTestStringConvertible, Sendable {
        var testDescription: String { self.script }
        var script: String
        var client: String
        var run: String
        /// The first digits of its tokens.
        var tokens: [String]
    }

    private static let rest = "b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"

    static let tutorials = [
        Tutorial(script: "push.py", client: "python", run: "python3 push.py", tokens: ["d1", "d2"]),
        Tutorial(script: "push.rb", client: "ruby", run: "ruby push.rb", tokens: ["e1", "e2"]),
        Tutorial(script: "push.pl", client: "other", run: "perl push.pl", tokens: ["f1", "f2"]),
        Tutorial(
            script: "push.js",
            client: "node",
            run: "NODE_EXTRA_CA_CERTS=authority.pem node push.js",
            tokens: ["91", "92"]
        ),
        Tutorial(
            script: "Push.java",
            client: "java",
            run: "java -Djavax.net.ssl.trustStore=trust.jks -Djavax.net.ssl.trustStorePassword=changeit Push.java",
            tokens: ["81", "82"]
        ),
        Tutorial(
            script: "push.go",
            client: "go",
            run: "SSL_CERT_FILE=authority.pem GOTOOLCHAIN=local go run push.go",
            tokens: ["71", "72"]
        ),
    ]

    /// Method: the script runs three times, since its first feedback request may precede the service's response for
    /// dead tokens.
    @Test(.enabled(if: TestEffort.isLong, "a part of Scripts/test --long"), arguments: tutorials)
    func `a script of 2012 delivers, and reads its dead tokens`(_ tutorial: Tutorial) async throws {
        let tokens = tutorial.tokens.map { $0 + Self.rest }
        let upstream =
            "--upstream-certificate apns/provider.pem --upstream-key apns/provider.key.pem --upstream-host localhost "
            + "--upstream-port 2197 --upstream-trust apns/authority.pem"
        var commands = [
            "apns-legacy simulator --folder apns --environment production --http2-port 2197 --control-port 8090 "
                + "--dead-device \(tokens[1]) &",
            "apns-legacy gateway init --folder gateway --environment production --client \(tutorial.client) "
                + upstream,
            "apns-legacy gateway --config gateway/gateway.yaml &",
            "cat gateway/hosts >> /etc/hosts && cp gateway/provider* gateway/authority.pem .",
        ]
        if tutorial.client == "java" {
            commands.append(
                "keytool -importcert -keystore trust.jks -storepass changeit -noprompt -alias apns-legacy "
                    + "-file authority.pem"
            )
        }
        let first = commands.count
        for count in 1...3 { commands += [tutorial.run, Self.wait(count * tokens.count)] }
        let machine = try PrivateMachine(scripts: [tutorial.script])
        let output = try await machine.run(commands.map { PrivateMachine.Command(text: $0) }, deadline: 100)
        let runs = stride(from: first, to: commands.count, by: 2).map { output[$0] }
        let written = try runs.flatMap { try Self.written($0) }
        let received = try Self.received(output[commands.count - 1])
        #expect(written.count == 3 * tokens.count && Set(written.map(\.token)) == Set(tokens), "\(output)")
        func counts(_ messages: [Message]) -> [Message: Int] {
            Dictionary(messages.map { ($0, 1) }, uniquingKeysWith: +)
        }
        #expect(counts(Self.messages(received)) == counts(written), "\(output)")
        #expect(received.allSatisfy { ($0.outcome == "accepted") == ($0.token == tokens[0]) })
        let dead = runs.joined().split(separator: "\n").filter { $0.hasPrefix("dead ") }
        #expect(Set(dead) == ["dead \(tokens[1])"], "\(output)")
    }
}
