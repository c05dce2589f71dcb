// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport

/// A gateway process, with a folder of its files.
final class GatewayProgram: Sendable {
    /// The files, removed with this object.
    final class Folder: Sendable {
        let url: URL
        let authority: CertificateAuthority
        let provider: IssuedIdentity
        let server: IssuedIdentity

        init() throws {
            self.url = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: self.url, withIntermediateDirectories: true)
            self.authority = try CertificateAuthority()
            self.provider = try self.authority.issueClient(topic: GatewayProgram.topic)
            self.server = try self.authority.issueServer()
            try FileManager.default.createDirectory(at: self.database, withIntermediateDirectories: true)
            try self.write("ca.pem", self.authority.certificatePEM)
            try self.write("upstream-ca.pem", self.authority.certificatePEM)
            try self.write("provider.pem", self.provider.pem)
            try self.write("upstream.pem", self.provider.pem)
            try self.write("server.pem", self.server.pem)
        }

        deinit { try? FileManager.default.removeItem(at: self.url) }

        /// The folder of the feedback database.
        var database: URL { self.url.appending(path: "database") }

        func path(_ name: String) -> String { self.url.appending(path: name).path }

        func write(_ name: String, _ bytes: [UInt8]) throws {
            try Data(bytes).write(to: self.url.appending(path: name))
        }

        func read(_ name: String) -> String {
            String(decoding: FileManager.default.contents(atPath: self.path(name)) ?? Data(), as: UTF8.self)
        }

        /// Writes a configuration for an upstream at this port.
        func configure(
            upstreamPort: Int,
            limits: String = "{shutdown: 10s}",
            clients: String = "{authority: ca.pem}",
            listen: String = "{port: 0, feedbackPort: 0}",
            store: String? = nil,
            provider: [String] = [],
            name: String = "gateway"
        ) throws {
            let database = name == "gateway" ? "feedback" : name
            let text = """
                listen: \(listen)
                admin: {port: 0}
                server: {certificate: server.pem}
                feedback: database/\(database).sqlite\(store.map { "\nstore: \($0)" } ?? "")
                limits: \(limits)
                providers:
                  - name: shop
                    clients: \(clients)
                    environment: sandbox
                    upstream:
                      {certificate: upstream.pem, host: localhost, port: \(upstreamPort), trust: upstream-ca.pem}
                """
            let lines = provider.map { "\n    \($0)" }.joined()
            try self.write("\(name).yaml", Array((text + lines).utf8))
        }
    }

    static let topic = "com.example.app"

    let folder: Folder
    private let logName: String
    let child: Child
    let port: Int
    let feedbackPort: Int
    let adminPort: Int

    /// Starts a gateway with the configuration in the folder, and waits until it listens.
    ///
    /// - Parameters:
    ///   - folder: its files.
    ///   - name: that of its configuration.
    ///   - launcher: a program with arguments, followed by those of the gateway, that execs the gateway.
    ///   - deadline: the number of seconds after which it is killed.
    /// - Throws: an error with its log if it does not start.
    init(
        _ folder: Folder,
        name: String = "gateway",
        launcher: [String] = [],
        deadline: Int64 = 120
    ) async throws {
        self.folder = folder
        self.logName = name == "gateway" ? "log" : "\(name).log"
        let words = launcher + [try Child.program, "gateway", "--config", folder.path("\(name).yaml")]
        let (child, ready) = try await Child.start(
            Array(words.dropFirst()),
            program: words[0],
            log: folder.path(self.logName),
            deadline: deadline
        )
        self.child = child
        let ports = Self.ports(ready)
        guard ports.count == 3 else { throw Child.Failure(description: folder.read(self.logName)) }
        (self.port, self.feedbackPort, self.adminPort) = (ports[0], ports[1], ports[2])
    }

    /// The ports in the gateway's log: notifications, feedback, admin.
    static func ports(_ line: String) -> [Int] { line.split(separator: " ").compactMap { Int($0) } }

    deinit { self.child.send(SIGKILL) }

    /// Ends the gateway with SIGTERM.
    func end() async throws -> Child.Ending {
        self.child.send(SIGTERM)
        return try await self.child.end()
    }

    // MARK: Its log

    var log: String { self.folder.read(self.logName) }

    /// The lines of the log that contain all of these texts.
    func lines(_ texts: [String]) -> [Substring] {
        let log = FileManager.default.contents(atPath: self.folder.path(self.logName)) ?? Data()
        // Called repeatedly; searching bytes is faster than splitting lines first.
        guard texts.allSatisfy({ log.range(of: Data($0.utf8)) != nil }) else { return [] }
        return String(decoding: log, as: UTF8.self).split(separator: "\n")
            .filter { line in texts.allSatisfy { line.contains($0) } }
    }

    /// Waits until this many lines of the log contain all of these texts, for at most 20 seconds.
    @discardableResult
    func lines(_ texts: String..., countMin: Int = 1) async throws -> [Substring] {
        var lines: [Substring] = []
        do {
            try await eventually("\(texts), \(countMin) times") {
                lines = self.lines(texts)
                return lines.count >= countMin
            }
        } catch let overdue as Overdue {
            throw Child.Failure(description: "\(overdue): \(self.log.suffix(4000))")
        }
        return lines
    }

    // MARK: Clients

    /// Runs `body` with a connection of a provider; by default with the configured provider's certificate.
    func connect<Value: Sendable>(
        _ identity: TLSIdentity? = nil,
        version: TLSVersion = .tls1_2,
        isReading: Bool = true,
        _ body: (ScriptedProvider) async throws -> Value
    ) async throws -> Value {
        try await ScriptedProvider.withConnection(
            port: self.port,
            tls: try self.tls(identity ?? self.folder.provider.identity, version: version),
            isReading: isReading,
            body
        )
    }

    /// A client's TLS configuration; `nil` for one without a certificate.
    func tls(_ identity: TLSIdentity?, version: TLSVersion = .tls1_2) throws -> TLSConfiguration {
        let trust = TLSTrust.pem(self.folder.authority.certificatePEM)
        var tls = TLSConfiguration.client(identity: identity, trust: trust)
        tls.versionMax = version
        return tls
    }

    /// The tuples that the feedback service sends to the provider; by default with the configured certificate.
    func feedback(_ identity: TLSIdentity? = nil) async throws -> [FeedbackTuple] {
        let tls = try self.tls(identity ?? self.folder.provider.identity)
        let bytes = try await ScriptedProvider.withConnection(port: self.feedbackPort, tls: tls) { provider in
            let ending = try await provider.end()
            guard ending.hasCloseNotify else { throw Child.Failure(description: "the list was cut") }
            try await provider.channel.close().get()
            return ending.bytes
        }
        var buffer = ByteBuffer(bytes: bytes)
        var tuples: [FeedbackTuple] = []
        while let tuple = try FeedbackTuple(parsing: &buffer) { tuples.append(tuple) }
        return tuples
    }

    // MARK: Frames

    static func token(_ number: UInt32) throws -> DeviceToken {
        let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
        return try DeviceToken(bytes: [UInt8](repeating: 0xB0, count: 28) + bytes)
    }

    static func number(of token: DeviceToken) -> UInt32 { UInt32(token.hexadecimal.suffix(8), radix: 16) ?? 0 }

    /// Frames with these identifiers, each for the token of the same number.
    static func frames(_ identifiers: ClosedRange<UInt32>) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for identifier in identifiers {
            let frame = NotificationFrame(
                token: try Self.token(identifier),
                payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"number \(identifier)\"}}"),
                expiry: 0,
                identifier: identifier,
                command: .enhanced
            )
            try frame.write(into: &bytes)
        }
        return bytes
    }

    static func probe(_ identifier: UInt32) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        try NotificationFrame.probe(identifier: identifier, command: .enhanced).write(into: &bytes)
        return bytes
    }

    static func response(_ status: ErrorResponse.Status, _ identifier: UInt32) -> [UInt8] {
        var bytes = ByteBuffer()
        ErrorResponse(status: status, identifier: identifier).write(into: &bytes)
        return Array(bytes.readableBytesView)
    }

    /// The only error response in the received bytes.
    static func response(_ bytes: [UInt8]) throws -> ErrorResponse? {
        var buffer = ByteBuffer(bytes: bytes)
        return try ErrorResponse(parsing: &buffer)
    }

    /// Checks that a correct provider is served.
    func serves(_ identity: TLSIdentity? = nil) async throws -> Bool {
        try await self.connect(identity) { provider in
            try await provider.send(try Self.frames(900_001...900_003))
            try await provider.send(try Self.probe(900_004))
            return try await provider.end().bytes == Self.response(.missingDeviceToken, 900_004)
        }
    }
}
