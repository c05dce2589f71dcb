// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSCertificates
import FileSupport
import Foundation
import TestSupport
import Testing

@testable import GatewayService

/// Goal: a kill at any time never leaves a configuration with missing files.
@Suite(.timeLimit(.minutes(2))) struct GatewaySetupTests {
    /// Simulates the end of the process.
    private struct Killed: Error {}

    private static func setup(_ folder: String) throws -> GatewaySetup {
        let identity = try CertificateAuthority().issueClient(topic: "com.example.app")
        return try GatewaySetup(
            topic: "com.example.app",
            environment: .production,
            credentials: UpstreamCredentials(certificate: identity.pem, key: nil, passphrase: nil),
            client: .php,
            host: "127.0.0.1",
            address: "127.0.0.1",
            folder: folder
        )
    }

    private static func names(_ folder: String) -> Set<String> {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return Set(names.filter { !$0.hasPrefix(".") })
    }

    /// Method: the process ends before the first change of the disk, before the second one, and so on; the next process
    /// finds all files, or none and creates them.
    @Test func `a kill at any time leaves nothing incomplete`() async throws {
        let now = Int64(Date().timeIntervalSince1970)
        let base = try TemporaryFolder()
        let setup = try Self.setup(base.path + "/base")
        // Creating keys is slow, and not part of this test.
        let files = try setup.files(now: now)
        do { try setup.write(files, to: try await AtomicFolder.open(setup.folder, replaces: false)) }
        let all = Self.names(setup.folder)
        #expect(all.count == 9 && all.contains(GatewaySetup.configurationName))
        var (limit, completeCount) = (0, 0)
        while true {
            var setup = setup
            setup.folder = base.path + "/\(limit)"
            var count = 0
            // The lock is released with the object.
            do {
                let folder = try await AtomicFolder.open(setup.folder, replaces: false) {
                    count += 1
                    if count > limit { throw Killed() }
                }
                try setup.write(files, to: folder)
            } catch is Killed {}
            guard count > limit else { break }
            let present = Self.names(setup.folder)
            #expect(!present.contains(GatewaySetup.configurationName) || present == all, "killed before \(limit)")
            let next = try await AtomicFolder.open(setup.folder, replaces: false)
            if Self.names(setup.folder) == all {
                completeCount += 1
                #expect(throws: GatewaySetup.Failure.self) { try setup.write(files, to: next) }
            } else {
                #expect(Self.names(setup.folder).isEmpty, "killed before \(limit)")
                try setup.write(files, to: next)
            }
            #expect(Self.names(setup.folder) == all)
            limit += 1
        }
        #expect(limit > 30 && completeCount > 5 && completeCount < limit)
    }

    @Test func `files that another process creates meanwhile are kept, even after a kill`() async throws {
        let base = try TemporaryFolder()
        let setup = try Self.setup(base.path + "/setup")
        let own = setup.folder + "/" + GatewaySetup.configurationName
        let files = try setup.files(now: Int64(Date().timeIntervalSince1970))
        do {
            let folder = try await AtomicFolder.open(setup.folder, replaces: false) {
                // All new files are complete, and wait to be moved.
                guard FileManager.default.fileExists(atPath: setup.folder + "/.ready") else { return }
                try Data("mine".utf8).write(to: URL(filePath: own))
                // A file that another process had moved when it was killed.
                let name = setup.folder + "/.ready/" + GatewaySetup.authorityName
                _ = unsafe link(name, setup.folder + "/" + GatewaySetup.authorityName)
                throw Killed()
            }
            #expect(throws: Killed.self) { try setup.write(files, to: folder) }
        }
        let error = AtomicFolderError.occupied(path: own, new: "\(setup.folder)/.ready/gateway.yaml")
        await #expect(throws: error) { try await AtomicFolder.open(setup.folder, replaces: false) }
        #expect(try String(contentsOfFile: own, encoding: .utf8) == "mine")
        #expect(Self.names(setup.folder).count == 9)
    }
}
