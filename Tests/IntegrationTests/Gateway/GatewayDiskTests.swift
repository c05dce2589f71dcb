// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

/// Goal: a full disk does not make a running gateway lose a dead token, and no notification is reported before its
/// token is stored.
@Suite(.timeLimit(.minutes(5))) struct GatewayDiskTests {
    /// Mounts a small disk at a folder, visible only to the process and its children.
    private static let launcher =
        ["/usr/bin/unshare"] + (getuid() == 0 ? [] : ["--user", "--map-root-user"]) + ["--mount", "/bin/sh", "-c"]
    private static let mount = "mount -t tmpfs -o size=8m tmpfs \"$0\" && exec \"$@\""

    /// Whether this system permits users to mount disks.
    static func isPossible() async -> Bool {
        let folder = FileManager.default.temporaryDirectory.path
        let words = Self.launcher + [Self.mount, folder, "true"]
        return (try? await Program.run(words[0], Array(words.dropFirst()), deadlineSeconds: 20)) != nil
    }

    /// What starts a gateway with a small disk at the folder of its database.
    static func launcher(for folder: GatewayProgram.Folder) -> [String] {
        Self.launcher + [Self.mount, folder.database.path]
    }

    /// The program's view of its database's folder.
    static func disk(_ gateway: GatewayProgram) -> URL {
        URL(filePath: "/proc/\(gateway.child.pid)/root" + gateway.folder.database.path)
    }

    /// Writes until the disk is full.
    static func fill(_ file: URL) throws {
        try Data().write(to: file)
        let handle = try FileHandle(forWritingTo: file)
        defer { try? handle.close() }
        for byteCount in [4096, 1] {
            let piece = Data(count: byteCount)
            while (try? handle.write(contentsOf: piece)) != nil {}
        }
    }

    @Test(.enabled("No disk can be made here.") { await isPossible() })
    func `a provider that sent to a dead token waits until the token is stored`() async throws {
        let upstream = GatewayUpstream(streamCountMax: TestEffort.count(100, long: 1000)) { _, _ in
            .rejected(
                PushRejection(status: 410, reason: .unregistered, timestamp: Timestamp(secondsSince1970: 1_700_000_000))
            )
        }
        // More than fit into the free space of the database's files.
        let numbers = 1...TestEffort.count(500, long: 2000) as ClosedRange<UInt32>
        let folder = try GatewayProgram.Folder()
        try await upstream.run(folder) { port in
            try folder.configure(upstreamPort: port)
            let gateway = try await GatewayProgram(folder, launcher: Self.launcher(for: folder))
            let ballast = Self.disk(gateway).appending(path: "ballast")
            try Self.fill(ballast)
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(numbers))
                try await provider.send(try GatewayProgram.probe(numbers.upperBound + 1))
                let line = try await gateway.lines("feedback not written")[0]
                #expect(line.contains("full"), "\(line)")
                #expect(provider.bytes == [], "The answer is not given before the token is kept.")
                try FileManager.default.removeItem(at: ballast)
                let bytes = try await provider.end(within: .seconds(60)).bytes
                #expect(bytes == GatewayProgram.response(.missingDeviceToken, numbers.upperBound + 1))
            }
            try await gateway.lines("feedback database writable again")
            let kept = try await gateway.feedback().map { GatewayProgram.number(of: $0.token) }
            #expect(kept.sorted() == Array(numbers))
            let ending = try await gateway.end()
            #expect(ending.code == 0, "\(ending)")
        }
    }
}
