// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import TokenStore

/// Two gateways behind HAProxy, with one PostgreSQL database and one service.
struct FleetScene: Sendable {
    let folder: GatewayProgram.Folder
    let server: PostgreSQLServer
    let gateways: [GatewayProgram]
    /// The port of the balancer, which passes connections to the gateways in turn.
    let port: Int

    /// The balancer of Debian's package.
    private static let balancer = "/usr/sbin/haproxy"

    static var isPossible: Bool {
        QueueScene.isPossible && FileManager.default.isExecutableFile(atPath: Self.balancer)
    }

    /// Runs `body` with all of them.
    static func with(
        _ record: ChainRecord,
        limits: String = "{shutdown: 10s}",
        _ body: @escaping @Sendable (FleetScene) async throws -> Void
    ) async throws {
        let folder = try GatewayProgram.Folder()
        let server = try await PostgreSQLServer(in: folder.url.path)
        do {
            try await record.upstream().run(folder) { servicePort in
                var gateways: [GatewayProgram] = []
                for name in ["one", "two"] {
                    let store = server.address(user: "tests")
                    try folder.configure(upstreamPort: servicePort, limits: limits, store: store, name: name)
                    gateways.append(try await GatewayProgram(folder, name: name))
                }
                let port = try ReservedPort()
                let balancer = try Self.startBalancer(folder, port.number, gateways.map(\.port))
                defer { balancer.send(SIGKILL) }
                let scene = FleetScene(folder: folder, server: server, gateways: gateways, port: port.number)
                for gateway in gateways { try await scene.awaitReady(gateway) }
                try await eventually("the balancer listens") {
                    if balancer.hasEnded { throw Child.Failure(description: folder.read("haproxy.log")) }
                    return Self.isOpen(port.number)
                }
                try await body(scene)
            }
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    private static func startBalancer(_ folder: GatewayProgram.Folder, _ port: Int, _ ports: [Int]) throws -> Child {
        let servers = ports.enumerated().map { "    server gateway\($0) 127.0.0.1:\($1)" }.joined(separator: "\n")
        let text = """
            global
                noreuseport
            defaults
                mode tcp
                timeout connect 5s
                timeout client 1m
                timeout server 1m
                retries 3
                option redispatch 1
            frontend providers
                bind 127.0.0.1:\(port)
                default_backend gateways
            backend gateways
                balance roundrobin
            \(servers)

            """
        try folder.write("haproxy.cfg", Array(text.utf8))
        let streams = Child.Streams(output: folder.path("haproxy.out"), error: folder.path("haproxy.log"))
        return try Child(["-f", folder.path("haproxy.cfg"), "-db"], streams, program: Self.balancer, deadline: 120)
    }

    /// Whether something listens on a port; asks the kernel, since a connection would be one for a gateway.
    private static func isOpen(_ port: Int) -> Bool {
        let lines = (try? String(contentsOfFile: "/proc/net/tcp", encoding: .utf8)) ?? ""
        let address = "0100007F:" + String(format: "%04X", port)
        return lines.split(separator: "\n").contains { line in
            let fields = line.split(separator: " ")
            return fields.count > 3 && fields[1] == address && fields[3] == "0A"
        }
    }

    /// A provider that connects to the balancer.
    func provider() throws -> FrameProvider { try FrameProvider(self.folder, port: self.port) }

    /// Waits until a gateway has admitted a provider, and returns it.
    func admitting() async throws -> GatewayProgram {
        var found: GatewayProgram?
        try await eventually("a provider is admitted") {
            found = try self.gateways.first { try !$0.entries("provider admitted").isEmpty }
            return found != nil
        }
        guard let found else { throw Child.Failure(description: "no gateway") }
        return found
    }

    /// Waits until a gateway is ready, or is not any more.
    func awaitReady(_ gateway: GatewayProgram, _ isReady: Bool = true) async throws {
        try await eventually("ready: \(isReady)") {
            let answer = try await GatewayOperatorTests.get("/readyz", gateway)
            let isAway = answer.body.contains("the shared database does not answer")
            return isReady ? answer.status == 200 : answer.status == 503 && isAway
        }
    }

    /// The value of a metric without labels, or the sum over its labels.
    func metric(_ name: String, _ gateway: GatewayProgram) async throws -> Int {
        let text = try await GatewayOperatorTests.get("/metrics", gateway).body
        let samples = text.split(separator: "\n").filter { $0.hasPrefix(name + "{") || $0.hasPrefix(name + " ") }
        return samples.compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0) { $0 + Int($1) }
    }
}
