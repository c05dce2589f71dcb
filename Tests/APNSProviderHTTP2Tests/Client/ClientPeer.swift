// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTestKit
import APNSWire
import NIOCore
import NIOPosix
import OpenSSLTLS
import Testing

/// The service that a client connects to in a test, with one of the two protocols.
enum ClientPeer: CaseIterable, CustomTestStringConvertible {
    case binary
    case http2

    var testDescription: String { self == .binary ? "binary" : "HTTP/2" }

    /// A running service.
    struct Running: Sendable {
        let port: Int
        /// The numbers of the notifications that it accepted, or left without an answer.
        let numbers: @Sendable () -> [Int]
        /// Waits until this many arrived.
        let wait: @Sendable (Int) async throws -> Void
    }

    /// The configuration of a client for it, with the defaults except the queue's deadline and the delays.
    ///
    /// - Parameters:
    ///   - port: the port of the service.
    ///   - queueTimeout: the maximum waiting time of a notification.
    ///   - pauseMax: the maximum delay before reconnecting; by default the library's.
    /// - Returns: the configuration.
    /// - Throws: an error if there are no certificates.
    func configuration(
        port: Int,
        queueTimeout: Duration? = .seconds(30),
        pauseMax: Duration? = nil
    ) throws -> PushClientConfiguration {
        let identity = try PushFixture.provider.get().identity
        let trust = try PushFixture.trust()
        switch self {
        case .binary:
            return .binary(host: "127.0.0.1", port: port, identity: identity, trust: trust) {
                $0.queueTimeout = queueTimeout
                if let pauseMax { $0.limits.backoff.max = pauseMax }
            }
        case .http2:
            let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: port)
            return .http2(endpoint, identity: identity, trust: trust) { configuration, _ in
                configuration.queueTimeout = queueTimeout
                if let pauseMax { configuration.backoff.max = pauseMax }
            }
        }
    }

    /// Runs a service, and ends it in any case.
    ///
    /// - Parameters:
    ///   - port: the port; by default a free one.
    ///   - isSilent: whether it never reports the outcome of a notification.
    ///   - body: receives the service.
    /// - Returns: the result of `body`.
    /// - Throws: the errors of `body` and of the socket.
    func withService<Value: Sendable>(
        port: Int = 0,
        isSilent: Bool = false,
        _ body: (Running) async throws -> Value
    ) async throws -> Value {
        switch self {
        case .binary: try await Self.withGateway(port, isSilent, body)
        case .http2: try await Self.withPushService(port, isSilent, body)
        }
    }

    private static func withGateway<Value: Sendable>(
        _ port: Int,
        _ isSilent: Bool,
        _ body: (Running) async throws -> Value
    ) async throws -> Value {
        let tls = TLSConfiguration.server(
            identity: try PushFixture.server.get().identity,
            trust: try PushFixture.trust()
        )
        let gateway = try await ScriptedGateway.start(tls: tls, port: port) { _ in
            GatewayScript { if isSilent { $0.probeReply = .never } }
        }
        let result: Result<Value, any Error>
        do {
            let running = Running(
                port: gateway.port,
                numbers: { gateway.records.flatMap { $0.accepted.compactMap(\.token).map(Self.number) } },
                wait: { count in try await gateway.wait { $0.map(\.accepted.count).reduce(0, +) >= count } }
            )
            result = .success(try await body(running))
        } catch {
            result = .failure(error)
        }
        try await gateway.stop()
        return try result.get()
    }

    private static func withPushService<Value: Sendable>(
        _ port: Int,
        _ isSilent: Bool,
        _ body: (Running) async throws -> Value
    ) async throws -> Value {
        let service = ScriptedService { _, _ in isSilent ? .ignore : nil }
        var configuration = try PushFixture.serverConfiguration()
        configuration.listener.port = port
        return try await Listener(configuration, service: service, logger: PushFixture.quiet).withRunning { listener in
            let running = Running(
                port: try await listener.boundAddress.port,
                numbers: { service.requests.map { Self.number($0.token) } },
                wait: { try await service.wait(requestCount: $0) }
            )
            return try await body(running)
        }
    }

    /// The number in a token of ``PushFixture/token(_:)``.
    private static func number(_ token: DeviceToken) -> Int {
        token.bytes.suffix(2).reduce(0) { $0 << 8 | Int($1) }
    }

    /// Waits for some time: to pace a test, never to wait for an event.
    static func pass(_ time: Duration) async throws {
        try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(time)) {}.futureResult.get()
    }

    static func notification(_ number: Int) throws -> PushNotification {
        PushNotification(token: try PushFixture.token(number), payload: #"{"aps":{"alert":"Hello"}}"#)
    }

    /// The same with an identifier.
    static func identified(_ number: Int) throws -> PushNotification {
        var notification = try Self.notification(number)
        notification.apnsID = PushIdentifier("123E4567-E89B-12D3-A456-42665544000A")
        return notification
    }
}

/// Numbered notifications: this many, then an end, an error, or continuously more, one each millisecond.
struct NumberedRows: AsyncSequence, AsyncIteratorProtocol, Sendable {
    private let count: Int
    private let atEnd: @Sendable () throws -> Void
    private var number = 0

    /// The number of notifications without a delay.
    private static let promptCount = 100

    /// - Parameters:
    ///   - count: the number of notifications.
    ///   - atEnd: is called when one more is requested; those before it were then read.
    init(_ count: Int = .max, atEnd: @escaping @Sendable () throws -> Void = {}) {
        self.count = count
        self.atEnd = atEnd
    }

    mutating func next() async throws -> (id: Int, notification: PushNotification)? {
        guard self.number < self.count else {
            try self.atEnd()
            return nil
        }
        if self.number >= Self.promptCount { try await ClientPeer.pass(.milliseconds(1)) }
        defer { self.number += 1 }
        return (self.number, try ClientPeer.notification(self.number))
    }

    func makeAsyncIterator() -> Self { self }
}
