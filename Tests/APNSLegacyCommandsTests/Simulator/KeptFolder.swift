// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import FileSupport
import Foundation
import GatewayService
import OpenSSLTLS
import TestSupport

@testable import APNSLegacyCommands

/// The folder of a simulator, in a temporary folder.
struct KeptFolder {
    static let day: Int64 = 86_400
    static let now = Int64(Date().timeIntervalSince1970)
    static let (topic, otherTopic) = ("com.example.app", "com.example.other")
    static let names = [
        "authority.key.pem", "authority.pem", "key.p8", "passphrase.txt", "provider-combined.pem",
        "provider-legacy.p12", "provider-traditional.key.pem", "provider.key.pem", "provider.p12", "provider.pem",
        "server.key.pem", "server.pem", "token.key",
    ]

    private let temporary: TemporaryFolder
    let path: String

    init() throws {
        self.temporary = try TemporaryFolder()
        self.path = self.temporary.path + "/simulator"
    }

    /// Starts like the simulator.
    @discardableResult
    func start(
        topic: String = Self.topic,
        keyKind: CertificateAuthority.KeyKind? = nil,
        now: Int64 = Self.now,
        change: (inout SimulatorFiles.Options) -> Void = { _ in },
        willChange: @escaping () throws -> Void = {}
    ) async throws -> (certificates: SimulatorFiles, lines: [String]) {
        var options = SimulatorFiles.Options(
            topic: topic,
            keyKind: keyKind,
            serverNames: ServerNames.all,
            tokenKeyByteCount: 32
        )
        change(&options)
        do {
            let folder = try await AtomicFolder.open(self.path, willChange: willChange)
            let certificates = try SimulatorFiles(in: folder, options, now: now)
            return (certificates, try folder.commit().map { $0.line(self.path) })
        } catch  where error is AtomicFolderError || error is SimulatorFiles.Failure {
            throw CommandFailure(error)
        }
    }

    /// The files and their contents, without the lock.
    func contents() throws -> [String: [UInt8]] {
        var contents: [String: [UInt8]] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: self.path) where name != ".lock" {
            contents[name] = try self.read(name)
        }
        return contents
    }

    func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: self.path + "/" + name))) }

    func write(_ name: String, _ bytes: [UInt8]) throws {
        try? FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
        try Data(bytes).write(to: URL(filePath: self.path + "/" + name))
    }

    func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: self.path + "/" + name) }

    /// Makes the folder a copy of another one.
    func copy(_ other: KeptFolder) throws {
        for (name, bytes) in try other.contents() { try self.write(name, bytes) }
    }

    /// The certificate in a file.
    func certificate(_ name: String) throws -> TLSCertificate {
        try TLSIdentity(contentsOf: "\(self.path)/\(name).pem", key: "\(self.path)/\(name).key.pem").certificate
    }
}
