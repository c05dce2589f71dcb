// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import Foundation
import Glibc
import NIOCore
import NIOPosix
import TestSupport
import Testing

/// Goal: TLS is end to end through a proxy, and a proxy that rejects a connection does not stop a run for long.
///
/// Method: a scripted proxy for each answer, and pproxy, an independent implementation.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ProxyTests {
    static func configuration(
        _ kind: Proxy.Kind,
        port: Int,
        host: String = "localhost",
        gateway: Int,
        credentials: Proxy.Credentials? = nil
    ) throws -> BinaryConfiguration {
        try Sending.configuration(port: gateway, host: host) {
            $0.proxy = Proxy(
                kind: kind,
                endpoint: Endpoint(host: "127.0.0.1", port: port),
                credentials: credentials
            )
            $0.limits.fruitlessConnectionCountMax = 2
            $0.connectTimeout = .seconds(30)
        }
    }

    @Test(arguments: ["localhost", "127.0.0.1"])
    func `notifications go through an HTTP proxy, which receives host and port`(host: String) async throws {
        try await Sending.withGateway { gateway in
            let proxy = try await ScriptedProxy.start(.http, .open, upstream: gateway.port)
            let credentials = Proxy.Credentials(user: "alice", password: "secret")
            let configuration = try Self.configuration(
                .http,
                port: proxy.port,
                host: host,
                gateway: gateway.port,
                credentials: credentials
            )
            let outcomes = try await Sending.send(3000, configuration)
            #expect(outcomes.count { $0 == .accepted } == 3000)
            let lines = try #require(proxy.requests.first).split(separator: "\r\n").map(String.init)
            #expect(lines.first == "CONNECT \(host):\(gateway.port) HTTP/1.1")
            #expect(lines.contains("Host: \(host):\(gateway.port)"))
            #expect(lines.contains("Proxy-Authorization: Basic YWxpY2U6c2VjcmV0"))
            try await proxy.stop()
        }
    }

    @Test func `an IPv6 address is in brackets`() async throws {
        let proxy = try await ScriptedProxy.start(.http, .close, upstream: 1)
        let configuration = try Self.configuration(.http, port: proxy.port, host: "::1", gateway: 2195)
        await #expect(throws: ProviderError.self) { try await BatchSender(configuration).run(CountedSource(1)) }
        let request = try #require(proxy.requests.first)
        #expect(request.hasPrefix("CONNECT [::1]:2195 HTTP/1.1\r\n"))
        #expect(request.contains("\r\nHost: [::1]:2195\r\n"))
        try await proxy.stop()
    }

    @Test(arguments: [("localhost", "localhost"), ("127.0.0.1", "address")])
    func `notifications go through a SOCKS proxy, which resolves the name`(
        host: String,
        asked: String
    ) async throws {
        try await Sending.withGateway { gateway in
            let proxy = try await ScriptedProxy.start(.socks5, .open, upstream: gateway.port)
            let configuration = try Self.configuration(.socks5, port: proxy.port, host: host, gateway: gateway.port)
            let outcomes = try await Sending.send(3000, configuration)
            #expect(outcomes.count { $0 == .accepted } == 3000)
            #expect(proxy.requests.first == asked)
            try await proxy.stop()
        }
    }

    @Test(arguments: [Proxy.Kind.http, .socks5])
    func `a proxy that rejects or closes is retried, then the run ends`(kind: Proxy.Kind) async throws {
        let refusal = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
        for answer in [ScriptedProxy.Answer.close, .say(kind == .http ? refusal : "\u{5}\u{1}\u{0}\u{1}\0\0\0\0\0\0")] {
            let proxy = try await ScriptedProxy.start(kind == .http ? .http : .socks5, answer, upstream: 1)
            let configuration = try Self.configuration(kind, port: proxy.port, gateway: 2195)
            let sender = try BatchSender(configuration)
            let error = await #expect(throws: ProviderError.self) { try await sender.run(CountedSource(5)) }
            guard case .unavailable(let failure) = error?.kind else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(
                failure.kind == .proxy && "\(failure)".hasPrefix("proxy 127.0.0.1:\(proxy.port) did not connect to ")
            )
            #expect(proxy.requests.count == 2)
            try await proxy.stop()
        }
    }

    @Test func `a proxy that rejects the credentials stops the run immediately`() async throws {
        let answer = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        let proxy = try await ScriptedProxy.start(.http, .say(answer), upstream: 1)
        let sender = try BatchSender(Self.configuration(.http, port: proxy.port, gateway: 2195))
        let error = await #expect(throws: ProviderError.self) { try await sender.run(CountedSource(5)) }
        guard case .notPermitted(let failure) = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(failure.kind == .proxyAuthentication)
        #expect(proxy.requests.count == 1)
        try await proxy.stop()
    }

    @Test(arguments: [Proxy.Kind.http, .socks5])
    func `a proxy that hangs is given up after the timeout`(kind: Proxy.Kind) async throws {
        let proxy = try await ScriptedProxy.start(kind == .http ? .http : .socks5, .hang, upstream: 1)
        var configuration = try Self.configuration(kind, port: proxy.port, gateway: 2195)
        configuration.connectTimeout = .milliseconds(200)
        let sender = try BatchSender(configuration)
        let clock = ContinuousClock()
        let start = clock.now
        let error = await #expect(throws: ProviderError.self) { try await sender.run(CountedSource(5)) }
        guard case .unavailable = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(start.duration(to: clock.now) < .seconds(5))
        try await proxy.stop()
    }

    @Test(arguments: [Proxy.Kind.http, .socks5])
    func `a run that is cancelled while the proxy hangs leaves no socket behind`(kind: Proxy.Kind) async throws {
        let proxy = try await ScriptedProxy.start(kind == .http ? .http : .socks5, .hang, upstream: 1)
        var configuration = try Self.configuration(kind, port: proxy.port, gateway: 2195)
        configuration.connectTimeout = .seconds(60)
        // Another connection of this process may have had the same port.
        let before = Sockets.descriptors(to: proxy.port)
        let sender = try BatchSender(configuration)
        let running = Task { try await sender.run(CountedSource(5)) }
        try await proxy.asked.get()
        running.cancel()
        _ = await running.result
        #expect(Sockets.descriptors(to: proxy.port) == before, "\(Sockets.list(to: proxy.port))")
        try await proxy.stop()
    }

    @Test(arguments: [Proxy.Kind.http, .socks5])
    func `notifications go through pproxy`(kind: Proxy.Kind) async throws {
        try await Sending.withGateway { gateway in
            let credentials = kind == .http ? Proxy.Credentials(user: "alice", password: "secret") : nil
            let proxy = try await PythonProxy.start(kind, hasCredentials: credentials != nil)
            defer { proxy.stop() }
            let configuration = try Self.configuration(
                kind,
                port: proxy.port,
                gateway: gateway.port,
                credentials: credentials
            )
            let outcomes = try await Sending.send(3000, configuration)
            #expect(outcomes.count { $0 == .accepted } == 3000)
        }
    }
}

/// pproxy as a separate process.
final class PythonProxy {
    let port: Int
    private let process: Process

    private init(port: Int, process: Process) {
        self.port = port
        self.process = process
    }

    private static let package = "pproxy==2.7.9"

    /// Starts it on a port that was free a moment ago, since it cannot select one, and waits for it.
    static func start(_ kind: Proxy.Kind, hasCredentials: Bool) async throws -> PythonProxy {
        let group = MultiThreadedEventLoopGroup.singleton
        let probe = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let port = probe.localAddress?.port ?? 0
        try await probe.close()
        let secret = hasCredentials ? "#alice:secret" : ""
        let process = Process()
        process.executableURL = URL(filePath: try await PythonEnvironment(PythonProxy.package).python)
        process.arguments = ["-m", "pproxy", "-l", "\(kind.rawValue)://127.0.0.1:\(port)\(secret)"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        // It does not report when it listens, so the test connects repeatedly until it does.
        try await eventually("the proxy listens") {
            let bootstrap = ClientBootstrap(group: group)
            guard let channel = try? await bootstrap.connect(host: "127.0.0.1", port: port).get() else { return false }
            try await channel.close()
            return true
        }
        return PythonProxy(port: port, process: process)
    }

    func stop() {
        // It has inherited a signal mask that blocks other signals.
        kill(self.process.processIdentifier, SIGKILL)
        self.process.waitUntilExit()
    }
}
