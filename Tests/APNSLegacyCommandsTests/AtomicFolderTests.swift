// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import FileSupport
import Foundation
import Glibc
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSLegacyCommands

/// Goal: after any interruption or failure while files are created, the next start finds a usable folder whose files
/// belong together.
@Suite(.timeLimit(.minutes(2)), .serialized) struct AtomicFolderTests {
    /// Simulates the end of the process.
    private struct Killed: Error {}

    /// Counts the changes of the disk, and ends the process before one of them.
    private final class Killer {
        private let countMax: Int
        private(set) var count = 0

        init(after countMax: Int) { self.countMax = countMax }

        var hasKilled: Bool { self.count > self.countMax }

        func willChange() throws {
            self.count += 1
            // A killed process does not clean up.
            if self.hasKilled { throw Killed() }
        }
    }

    /// Method: the process ends before the first change of the disk, before the second one, and so on.
    ///
    /// The next start has the earlier options, so it would detect a mixture of old and new files.
    @Test(arguments: [false, true])
    func `the next start repairs the folder after a kill at any time`(isFolderThere: Bool) async throws {
        let base = try KeptFolder()
        try await base.start(keyKind: .p256)
        let before = try base.contents()
        var (count, unchangedCount) = (0, 0)
        let step = TestEffort.count(2, long: 1)
        while true {
            let folder = try KeptFolder()
            if isFolderThere { try folder.copy(base) }
            let killer = Killer(after: count)
            _ = try? await folder.start(topic: KeptFolder.otherTopic, keyKind: .p256, willChange: killer.willChange)
            guard killer.hasKilled else { break }
            // Another process that is killed meanwhile, and one that is not.
            let second = Killer(after: count % 3)
            _ = try? await folder.start(keyKind: .p256, willChange: second.willChange)
            try await folder.start(keyKind: .p256)
            let after = try folder.contents()
            #expect(after.keys.sorted() == KeptFolder.names, "killed before change \(count)")
            if isFolderThere {
                if after == before { unchangedCount += 1 }
                for name in ["authority.pem", "server.pem", "key.p8"] { #expect(after[name] == before[name]) }
            }
            #expect(try await folder.start(keyKind: .p256).lines.isEmpty, "killed before change \(count)")
            #expect(try folder.certificate("provider").subjectField("UID") == KeptFolder.topic)
            count += step
        }
        // Twelve files are written and moved, or the six of the provider.
        #expect(count > (isFolderThere ? 20 : 40))
        if isFolderThere { #expect(unchangedCount > 10 / step && unchangedCount < count / step) }
    }

    @Test func `simulators that start at the same time have the same certificates`() async throws {
        let folder = try KeptFolder()
        let starts = try await withThrowingTaskGroup(of: (String?, Bool).self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let (certificates, lines) = try await folder.start(keyKind: .p256)
                    return (certificates.server?.certificate.fingerprint, lines.isEmpty)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(starts.map(\.0)).count == 1)
        #expect(starts.count { !$0.1 } == 1)
    }

    @Test func `a path that cannot be a folder is named`() async throws {
        let folder = try KeptFolder()
        try folder.write("file", [1])
        for path in [folder.path + "/file", folder.path + "/file/folder", folder.path + "/none/folder"] {
            let error = await #expect(throws: AtomicFolderError.self) { try await AtomicFolder.open(path) }
            let failure = error.map { CommandFailure($0) }
            #expect(failure?.status == .cannotCreate)
            #expect(failure?.description.contains(path) == true)
        }
    }

    /// Whether this user may mount a small file system.
    private static var canMount: Bool {
        guard let folder = try? TemporaryFolder(),
            mount("tmpfs", folder.path, "tmpfs", 0, "size=64k") == 0
        else { return false }
        return umount2(folder.path, Int32(MNT_DETACH)) == 0
    }

    @Test(.enabled(if: canMount, "mounting a small file system needs root"))
    func `a full disk is reported, changes nothing, and does not affect a complete folder`() async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let whole = try folder.contents()
        // Space for fewer files than there are to write, and for a lock.
        #expect(mount("tmpfs", folder.path, "tmpfs", 0, "size=24k") == 0)
        defer { umount2(folder.path, Int32(MNT_DETACH)) }
        let error = await #expect(throws: CommandFailure.self) { try await folder.start(keyKind: .p256) }
        #expect(error?.status == .ioError)
        #expect(error?.description.contains("No space left on device") == true, "\(String(describing: error))")
        #expect(try folder.contents().isEmpty)
        #expect(mount("tmpfs", folder.path, "tmpfs", UInt(MS_REMOUNT), "size=64k") == 0)
        for (name, bytes) in whole { try folder.write(name, bytes) }
        // Writes until the disk is full.
        let filler = [UInt8](repeating: 0, count: 4096)
        for number in 0..<64 where (try? folder.write("filler\(number)", filler)) == nil { break }
        #expect(try await folder.start().lines.isEmpty)
        try folder.remove("server.pem")
        let second = await #expect(throws: CommandFailure.self) { try await folder.start(topic: "com.example.other") }
        #expect(second?.status == .ioError, "\(String(describing: second))")
        #expect(try folder.read("provider.pem") == whole["provider.pem"])
    }

    @Test(.enabled(if: canMount, "mounting a small file system needs root"))
    func `a complete folder works on a read-only disk`() async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let whole = try folder.contents()
        #expect(mount("tmpfs", folder.path, "tmpfs", 0, "size=1m") == 0)
        defer { umount2(folder.path, Int32(MNT_DETACH)) }
        for (name, bytes) in whole { try folder.write(name, bytes) }
        #expect(mount("tmpfs", folder.path, "tmpfs", UInt(MS_REMOUNT | MS_RDONLY), nil) == 0)
        #expect(try await folder.start().lines.isEmpty)
        let error = await #expect(throws: CommandFailure.self) { try await folder.start(topic: "com.example.other") }
        #expect(error?.status == .cannotCreate)
        #expect(error?.description.contains("Read-only file system") == true, "\(String(describing: error))")
    }
}
