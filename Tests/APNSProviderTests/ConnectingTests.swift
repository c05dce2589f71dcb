// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS
import Testing

/// Goal: a connection that cannot be opened ends or is retried as documented, and the error describes the remedy.
///
/// Method: test certificates that are wrong in one way each, ports that refuse connections, servers that hang.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ConnectingTests {
    /// What is wrong with the certificates.
    enum Flaw: CaseIterable, Sendable {
        case serverExpired, serverOfUnknownAuthority, serverForOtherHost, clientMissing, clientOfUnknownAuthority
        case clientExpired

        /// What the error must contain.
        var words: [String] {
            switch self {
            case .serverExpired: ["expired"]
            case .serverOfUnknownAuthority: ["trust"]
            case .serverForOtherHost: ["other.example"]
            case .clientMissing, .clientOfUnknownAuthority, .clientExpired: ["certificate"]
            }
        }

        func tls(_ version: TLSVersion) throws -> (gateway: TLSConfiguration, provider: TLSConfiguration) {
            let authority = try Certificates.authority.get()
            let other = try CertificateAuthority(name: "Other")
            var server = try Certificates.server.get().identity
            var client: TLSIdentity? = try Certificates.client.get().identity
            switch self {
            case .serverExpired: server = try authority.issueServer(validity: .expired).identity
            case .serverOfUnknownAuthority: server = try other.issueServer().identity
            case .serverForOtherHost: server = try authority.issueServer(names: ["other.example"]).identity
            case .clientMissing: client = nil
            case .clientOfUnknownAuthority: client = try other.issueClient(topic: "com.example.app").identity
            case .clientExpired:
                client = try authority.issueClient(topic: "com.example.app", validity: .expired).identity
            }
            let gateway = try Certificates.gateway(version: version...version, identity: server)
            return (gateway, TLSConfiguration.client(identity: client, trust: try Certificates.trust()))
        }
    }

    @Test(arguments: Flaw.allCases, [TLSVersion.tls1_2, .tls1_3])
    func `an unusable certificate stops immediately with the reason`(flaw: Flaw, version: TLSVersion) async throws {
        let (server, client) = try flaw.tls(version)
        try await Sending.withGateway(tls: server) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) { $0.tls = client }
            let outcomes = NIOLockedValueBox(Sending.Outcomes())
            let clock = ContinuousClock()
            let start = clock.now
            let error = await #expect(throws: ProviderError.self) {
                try await Sending.send(100, configuration, into: outcomes)
            }
            #expect(start.duration(to: clock.now) < .seconds(10))
            guard case .notPermitted(let failure) = error?.kind, let description = error?.description else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(flaw.words.allSatisfy(description.contains), "\(description)")
            #expect(failure.isPermanent && description == "\(failure)")
            #expect(outcomes.withLockedValue { $0.settlements.allSatisfy { $0.outcome.kind == .unsent } })
            #expect(gateway.takenCounts.isEmpty)
        }
    }

    @Test(arguments: [1, 2, 10], [1, 3])
    func `a gateway that closes every connection without a response is reported as rejecting`(
        count: Int,
        connections: Int
    ) async throws {
        try await Sending.withGateway(script: { _ in GatewayScript { $0.opening = .closeAfterHandshake } }) { gateway in
            let source = CountedSource(count)
            let configuration = try Sending.configuration(port: gateway.port) { $0.connectionCount = connections }
            let sender = try BatchSender(configuration)
            let error = await #expect(throws: ProviderError.self) { try await sender.run(source) }
            #expect(error?.kind == .closedWithoutAnswer)
            #expect(source.outcomes.byNumber.values.allSatisfy { $0.count == 1 })
        }
    }

    @Test(arguments: [GatewayScript.Opening.closeBeforeHandshake, .neverShakeHands])
    func `a gateway without a handshake is unavailable`(opening: GatewayScript.Opening) async throws {
        try await Sending.withGateway(script: { _ in GatewayScript { $0.opening = opening } }) { gateway in
            let source = CountedSource(10)
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.limits.fruitlessConnectionCountMax = 3
                $0.tls.handshakeTimeout = .milliseconds(100)
            }
            let sender = try BatchSender(configuration)
            let error = await #expect(throws: ProviderError.self) { try await sender.run(source) }
            guard case .unavailable = error?.kind else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(gateway.records.count == 3)
            #expect(source.outcomes.settlements.isEmpty)
        }
    }

    @Test func `connections are retried until the gateway is available`() async throws {
        // The port is free again once the listener is closed, so that connecting to it is refused.
        let gateway = try await ScriptedGateway.start(tls: Certificates.gateway())
        let port = gateway.port
        try await gateway.stop()
        let third = MultiThreadedEventLoopGroup.singleton.next().makePromise(of: Void.self)
        let count = NIOLockedValueBox(0)
        let source = CountedSource(100)
        let configuration = try Sending.configuration(port: port) { $0.limits.fruitlessConnectionCountMax = 10_000 }
        let sender = try BatchSender(configuration) { _ in
            let number = count.withLockedValue { count in
                count += 1
                return count
            }
            if number == 3 { third.succeed(()) }
        }
        async let running: Void = sender.run(source)
        try await third.futureResult.get()
        let late = try await ScriptedGateway.start(tls: Certificates.gateway(), port: port)
        try await running
        #expect(source.outcomes.count { $0 == .accepted } == 100)
        try await late.stop()
    }

    @Test func `a name with two addresses, of which one listens, is reachable`() async throws {
        // localhost is ::1 and 127.0.0.1; the gateway listens on the second only.
        try await Sending.withGateway { gateway in
            let outcomes = try await Sending.send(10, Sending.configuration(port: gateway.port, host: "localhost"))
            #expect(outcomes.count { $0 == .accepted } == 10)
        }
    }

    @Test func `an address is connected to and verified`() async throws {
        try await Sending.withGateway { gateway in
            let outcomes = try await Sending.send(10, Sending.configuration(port: gateway.port, host: "127.0.0.1"))
            #expect(outcomes.count { $0 == .accepted } == 10)
        }
    }

    @Test func `a run that is cancelled while it connects leaves no socket behind`() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await Sending.withGateway(script: { _ in GatewayScript { $0.opening = .neverShakeHands } }) { gateway in
            let sender = try BatchSender(Sending.configuration(port: gateway.port), eventLoopGroup: group)
            let running = Task { try await sender.run(CountedSource(10)) }
            try await gateway.wait { !$0.isEmpty }
            running.cancel()
            _ = await running.result
            #expect(Sockets.count(to: gateway.port) == 0)
        }
        try await group.shutdownGracefully()
    }

    @Test func `nothing to send needs no connection`() async throws {
        let source = CountedSource(0)
        try await BatchSender(Sending.configuration(port: 1)).run(source)
    }

    @Test func `finishing without open notifications needs no connection`() async throws {
        let gateway = try await ScriptedGateway.start(tls: Certificates.gateway()) { _ in
            GatewayScript { $0.probeReply = .identifier }
        }
        let configuration = try Sending.configuration(port: gateway.port) {
            $0.limits.verificationDelay = .milliseconds(10)
            $0.limits.fruitlessConnectionCountMax = 2
        }
        try await PushClient.withClient(.binary(configuration)) { client in
            #expect(await client.send(try Sending.notification(0)) == .accepted)
            // The replacement is closed with the gateway, and nothing needs another one.
            try await gateway.stop()
        }
    }

    @Test func `TCP sends keepalive probes on an idle connection`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try Sending.configuration(port: gateway.port) { $0.keepaliveDelay = .seconds(47) }
            let client = try PushClient(.binary(configuration))
            async let running: Void = client.run()
            let notification = try Sending.notification(0)
            async let outcome = client.send(notification)
            try await gateway.wait { $0.contains { $0.isHandshakeDone } }
            let options = Sockets.keepalive(to: gateway.port)
            #expect(options?.isOn == true)
            #expect(options?.delay == 47)
            #expect(options?.interval == 11)
            client.finish()
            try await running
            #expect(await outcome == .accepted)
        }
    }

    @Test(arguments: [0, 65, 70_000])
    func `values out of range are rejected`(value: Int) throws {
        #expect(throws: ProviderError.self) {
            try BatchSender(Sending.configuration(port: 1) { $0.connectionCount = value })
        }
        #expect(throws: ProviderError.self) {
            try BatchSender(Sending.configuration(port: value == 65 ? -1 : value))
        }
        #expect(throws: ProviderError.self) {
            try BatchSender(Sending.configuration(port: 1) { $0.payloadByteCountMax = value == 65 ? 65_408 : value })
        }
        #expect(throws: ProviderError.self) {
            try BatchSender(Sending.configuration(port: 1) { $0.limits.windowCount = value == 0 ? 0 : 1 << 40 })
        }
    }

    @Test func `errors and proxies describe themselves without secrets`() {
        let credentials = Proxy.Credentials(user: "alice", password: "hunter2")
        let proxy = Proxy(kind: .http, endpoint: Endpoint(host: "proxy", port: 3128), credentials: credentials)
        for text in ["\(proxy)", "\(credentials)", String(reflecting: credentials)] {
            #expect(!text.contains("hunter2") && !text.contains("alice"), "\(text)")
        }
    }
}

/// The sockets of this process.
enum Sockets {
    struct Keepalive {
        var isOn: Bool
        var delay: Int32
        var interval: Int32
    }

    /// The descriptors of sockets that are connected to a port on loopback.
    static func descriptors(to port: Int) -> [Int32] {
        (0..<Int32(sysconf(Int32(_SC_OPEN_MAX)))).prefix(4096).filter { descriptor in
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let result = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
            }
            return result == 0 && address.sin_family == sa_family_t(AF_INET)
                && Int(UInt16(bigEndian: address.sin_port)) == port
        }
    }

    static func count(to port: Int) -> Int { self.descriptors(to: port).count }

    /// The descriptors with their TCP states, for the message of a failed expectation.
    static func list(to port: Int) -> [String] {
        self.descriptors(to: port).map { descriptor in
            var info = tcp_info()
            var length = socklen_t(MemoryLayout<tcp_info>.size)
            let result = getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_INFO, &info, &length)
            return "descriptor \(descriptor), state \(result == 0 ? Int(info.tcpi_state) : -1)"
        }
    }

    static func keepalive(to port: Int) -> Keepalive? {
        guard let descriptor = self.descriptors(to: port).first else { return nil }
        func option(_ level: Int32, _ name: Int32) -> Int32 {
            var value: Int32 = -1
            var length = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(descriptor, level, name, &value, &length) == 0 ? value : -1
        }
        return Keepalive(
            isOn: option(SOL_SOCKET, SO_KEEPALIVE) == 1,
            delay: option(Int32(IPPROTO_TCP), TCP_KEEPIDLE),
            interval: option(Int32(IPPROTO_TCP), TCP_KEEPINTVL)
        )
    }
}
