// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: a process keeps no passphrase and one copy of each private EC key in memory, and leaves no core file.
@Suite(.serialized, .timeLimit(.minutes(3)), .enabled(if: geteuid() == 0, "only root reads its memory"))
struct SystemSecretTests {
    private static let passphrase = "correct-horse-battery-9371"

    /// A library whose `free` keeps memory as it is, so that a copy that is not overwritten is found.
    private static let library = """
        #include <malloc.h>
        #include <stdlib.h>
        #include <string.h>
        void free(void *block) {}
        void *realloc(void *block, size_t byte_count) {
            void *moved = malloc(byte_count);
            size_t old = block ? malloc_usable_size(block) : 0;
            if (block && moved) memcpy(moved, block, old < byte_count ? old : byte_count);
            return moved;
        }
        """

    /// Execs a program with that library, and with core files in `folder`.
    private static func launcher(_ folder: String) async throws -> [String] {
        let source = folder + "/keep.c"
        try Data(Self.library.utf8).write(to: URL(filePath: source))
        let words = ["clang", "-shared", "-fPIC", "-fno-builtin", "-o", folder + "/keep.so", source]
        _ = try await Program.run("/usr/bin/env", words, deadlineSeconds: 60)
        // The runtime's backtraces would catch the signal, which the process would then survive.
        let script = """
            cd "$0" && ulimit -c "$(ulimit -H -c)" && export SWIFT_BACKTRACE=enable=no LD_PRELOAD="$0/keep.so"
            exec "$@"
            """
        return ["/bin/bash", "-c", script, folder]
    }

    /// What must not be in memory, and the key in use as OpenSSL stores it.
    private static func patterns(_ identities: [IssuedIdentity]) throws -> (secrets: [Data], used: [Data]) {
        var secrets = [Data(Self.passphrase.utf8)]
        // PKCS#12 derives its keys from UTF-16.
        secrets += [.utf16BigEndian, .utf16LittleEndian].compactMap { Self.passphrase.data(using: $0) }
        var used: [Data] = []
        for identity in identities {
            let lines = String(decoding: identity.keyPEM, as: UTF8.self).split(separator: "\n").dropFirst().dropLast()
            secrets += lines.map { Data($0.utf8) }
            let key = try #require(Data(base64Encoded: lines.joined()))
            // The version of a key on a curve, and its number of 32 bytes; RFC 5915, section 3.
            let prefix = try #require(key.range(of: Data([2, 1, 1, 4, 32])))
            let number = key[prefix.upperBound...].prefix(32)
            secrets.append(Data(number))
            used.append(Data(number.reversed()))
        }
        return (secrets, used)
    }

    /// How often each pattern is in the memory of a process.
    private static func counts(_ patterns: [Data], _ child: Child) async throws -> [Int] {
        let maps = try #require(try FileHandle(forReadingFrom: URL(filePath: "/proc/\(child.pid)/maps")).readToEnd())
        try #require(maps.range(of: Data("/keep.so".utf8)) != nil)
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Interop/memory_counts.py")
        let words =
            ["python3", script.path, "\(child.pid)"]
            + patterns.map { $0.map { String(format: "%02x", $0) }.joined() }
        let output = try await Program.run("/usr/bin/env", words, deadlineSeconds: 60)
        return String(decoding: output, as: UTF8.self).split { $0.isWhitespace }.compactMap { Int($0) }
    }

    /// Checks the memory of a process, and ends it with a signal that would leave a core file.
    private static func check(_ child: Child, _ identities: [IssuedIdentity]) async throws {
        let (secrets, used) = try Self.patterns(identities)
        let counts = try await Self.counts(secrets + used, child)
        try #require(counts.count == secrets.count + used.count)
        #expect(counts.prefix(secrets.count).allSatisfy { $0 == 0 }, "\(counts)")
        #expect(counts.suffix(used.count).allSatisfy { $0 == 1 }, "\(counts)")
        child.send(SIGABRT)
        let ending = try await child.end()
        #expect(ending.signal == SIGABRT && !ending.hasCore, "\(ending)")
    }

    /// How the files of a gateway are encrypted.
    enum Encryption: CaseIterable, Sendable {
        case new, old, none
    }

    @Test(arguments: Encryption.allCases)
    func `a gateway that has sent keeps no passphrase and each key once`(_ encryption: Encryption) async throws {
        let upstream = GatewayUpstream()
        let folder = try GatewayProgram.Folder()
        let signer = try folder.authority.issueServer()
        try folder.write("key.p8", signer.keyPEM)
        try folder.write("passphrase.txt", Array((Self.passphrase + "\n").utf8))
        let (server, upstreamFile) = try Self.write(folder, encryption)
        try await upstream.run(folder) { port in
            let service = "host: localhost, port: \(port), trust: upstream-ca.pem"
            let text = """
                listen: {port: 0, feedbackPort: 0}
                admin: {port: 0}
                server: {\(server)}
                feedback: database/feedback.sqlite
                providers:
                  - name: shop
                    clients: {authority: ca.pem}
                    environment: sandbox
                    upstream: {\(upstreamFile), \(service)}
                  - name: second
                    clients: {pins: [{fingerprint: \(signer.identity.certificate.fingerprint)}]}
                    environment: sandbox
                    upstream: {p8: key.p8, keyID: ABC123DEFG, teamID: TEAM123456, \(service)}
                """
            try folder.write("gateway.yaml", Array(text.utf8))
            let gateway = try await GatewayProgram(folder, launcher: Self.launcher(folder.url.path))
            #expect(try await gateway.serves())
            try await Self.check(gateway.child, [folder.server, folder.provider, signer])
        }
        #expect(upstream.accepted.count == 3)
    }

    /// Writes the files of the gateway's own certificate and of that for the service, and returns their settings.
    private static func write(
        _ folder: GatewayProgram.Folder,
        _ encryption: Encryption
    ) throws -> (server: String, upstream: String) {
        let (server, provider) = (folder.server, folder.provider)
        switch encryption {
        case .none: return ("certificate: server.pem", "certificate: upstream.pem")
        case .new:
            try folder.write("server.key", server.encryptedKeyPEM(passphrase: Self.passphrase))
            try folder.write("upstream.p12", provider.pkcs12(passphrase: Self.passphrase))
            return (
                "certificate: server.pem, key: server.key, passphraseFile: passphrase.txt",
                "certificate: upstream.p12, passphraseFile: passphrase.txt"
            )
        case .old:
            try folder.write("server.key", server.encryptedKeyPEM(passphrase: Self.passphrase, isTraditional: true))
            try folder.write("upstream.p12", provider.pkcs12(passphrase: Self.passphrase, form: .rc2))
            return (
                "certificate: server.pem, key: server.key, passphraseFile: passphrase.txt",
                "certificate: upstream.p12, passphraseFile: passphrase.txt"
            )
        }
    }

    @Test func `a sender that has sent keeps no passphrase and its key once`() async throws {
        let scene = try SendScene()
        let provider = try SendScene.provider.get()
        let files = [
            "--certificate", try scene.write("provider.p12", provider.pkcs12(passphrase: Self.passphrase)),
            "--passphrase-file", try scene.write("passphrase.txt", Self.passphrase + "\n"),
            "--trust", scene.path("ca.pem"),
        ]
        let launcher = try await Self.launcher(scene.folder)
        let (arrivals, arrived) = AsyncStream<Void>.makeStream()
        try await SendScene.withGateway(change: { $0.onReceive = { _ in arrived.yield() } }) { simulator in
            // The sender waits for the rest of the batch.
            let batch = Pipe()
            let words =
                launcher + [try Child.program, "send", "--host", "localhost"] + files
                + ["--port", "\(simulator.gatewayPort)", "-"]
            let streams = Child.Streams(input: batch.fileHandleForReading.fileDescriptor, error: scene.path("error"))
            let child = try Child(Array(words.dropFirst()), streams, program: words[0])
            defer { child.send(SIGKILL) }
            try batch.fileHandleForWriting.write(contentsOf: Data(SendScene.line(1).utf8))
            var iterator = arrivals.makeAsyncIterator()
            _ = await iterator.next()
            try await Self.check(child, [provider])
        }
    }
}
