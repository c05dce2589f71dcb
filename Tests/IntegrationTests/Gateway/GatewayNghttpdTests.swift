// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

/// The gateway with a plain HTTP/2 server: a token is valid if a file with its name exists.
@Suite(.timeLimit(.minutes(5))) struct GatewayNghttpdTests {
    /// A port without a listener.
    static func freePort() async throws -> Int {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = listener.localAddress?.port ?? 0
        try await listener.close()
        return port
    }

    /// Starts nghttpd with the folder; it logs requests to `nghttpd.log`.
    private static func start(_ folder: GatewayProgram.Folder, port: Int) throws -> Process {
        let name = "nghttpd"
        let paths = ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map { "\($0)/\(name)" }
        guard let path = paths.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
            throw Child.Failure(description: "\(name) is not installed; Scripts/test installs it.")
        }
        try folder.write("server.key", folder.server.keyPEM)
        try folder.write("nghttpd.log", [])
        let process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = [
            "-v", "-a", "127.0.0.1", "-d", folder.path("root"), "\(port)", folder.path("server.key"),
            folder.path("server.pem"),
        ]
        process.standardOutput = try FileHandle(forWritingTo: URL(filePath: folder.path("nghttpd.log")))
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return process
    }

    @Test func `pushjack sends through the gateway to nghttpd, and identifies the token that nghttpd does not know`()
        async throws
    {
        let folder = try GatewayProgram.Folder()
        let tokens = try (1...60).map { try GatewayProgram.token($0).hexadecimal }
        let unknown = tokens[24]
        let devices = folder.url.appending(path: "root/3/device")
        try FileManager.default.createDirectory(at: devices, withIntermediateDirectories: true)
        for token in tokens where token != unknown { try Data().write(to: devices.appending(path: token)) }
        let port = try await Self.freePort()
        let server = try Self.start(folder, port: port)
        defer { kill(server.processIdentifier, SIGKILL) }
        try folder.configure(upstreamPort: port)
        let gateway = try await GatewayProgram(folder)
        try folder.write("tokens", Array(tokens.joined(separator: "\n").utf8))
        let outcome = try await PythonProvider.pushjack.send(
            port: gateway.port,
            identity: folder.path("provider.pem"),
            trust: folder.path("ca.pem"),
            tokens: folder.path("tokens")
        )
        #expect(outcome.failed == [unknown: .status(1)])
        #expect(outcome.succeeded == tokens.filter { $0 != unknown })
        let ending = try await gateway.end()
        #expect(ending.code == 0, "\(ending)")
        let paths = folder.read("nghttpd.log").split(separator: "\n").filter { $0.contains(":path: /3/device/") }
            .map { String($0.suffix(64)) }
        #expect(paths.sorted() == tokens.sorted(), "Each was asked for once.")
    }
}
