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

/// What a client speaks to in a test: a service of one of the two protocols.
enum ClientPeer: CaseIterable, CustomTestStringConvertible {
    case binary
    case http2

    var testDescription: String { self == .binary ? "binary" : "HTTP/2" }

    /// A service that runs.
    struct Running: Sendable {
        let port: Int
        /// The numbers of the notifications that it took, or would not answer.
        let numbers: @Sendable () -> [Int]
        /// Waits until so many came.
        let wait: @Sendable (Int) async throws -> Void
    }

    /// The configuration of a client for it, with the defaults but for the queue's deadline and the pauses.
    ///
    /// - Parameters:
    ///   - port: where it listens.
    ///   - queueDurationMax: how long a notification may wait.
    ///   - pauseMax: the longest pause before connecting again; by default that of the library.
    /// - Returns: the configuration.
    /// - Throws: where there are no certificates.
    func configuration(
        port: Int,
        queueDurationMax: Duration? = .seconds(30),
        pauseMax: Duration? = nil
    ) throws -> PushClientConfiguration {
        let identity = try PushFixture.provider.get().identity
        let trust = try PushFixture.trust()
        switch self {
        case .binary:
            return .binary(host: "127.0.0.1", port: port, identity: identity, trust: trust) {
                $0.queueDurationMax = queueDurationMax
                if let pauseMax { $0.limits.backoff.max = pauseMax }
            }
        case .http2:
            let endpoint = Endpoint(host: "127.0.0.1", port: port)
            return .http2(endpoint, identity: identity, trust: trust) { configuration, _ in
                configuration.queueDurationMax = queueDurationMax
                if let pauseMax { configuration.backoff.max = pauseMax }
            }
        }
    }

    /// Runs a service, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - port: where it listens; by default on a free port.
    ///   - isSilent: whether it never says what became of a notification.
    ///   - body: is given the service.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and errors of the socket.
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
            clientCertificates: .required,
            trust: try PushFixture.trust()
        )
        let gateway = try await ScriptedGateway.start(tls: tls, port: port) { _ in
            GatewayScript { if isSilent { $0.probeReply = .never } }
        }
        let result: Result<Value, any Error>
        do {
            let running = Running(
                port: gateway.port,
                numbers: { gateway.records.flatMap { $0.taken.compactMap(\.token).map(Self.number) } },
                wait: { count in try await gateway.wait { $0.map(\.taken.count).reduce(0, +) >= count } }
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
                port: try await listener.boundAddress.port ?? 0,
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

    /// Lets time pass: what paces a test, and never a wait for something.
    static func pass(_ time: Duration) async throws {
        try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(time)) {}.futureResult.get()
    }

    static func notification(_ number: Int) throws -> PushNotification {
        PushNotification(token: try PushFixture.token(number), payload: #"{"aps":{"alert":"Hello"}}"#)
    }
}

/// Notifications by their numbers: so many, then an end, an error, or ever more, one each millisecond.
struct NumberedRows: AsyncSequence, AsyncIteratorProtocol, Sendable {
    private let count: Int
    private let atEnd: @Sendable () throws -> Void
    private var number = 0

    /// So many come at once.
    private static let promptCount = 100

    /// - Parameters:
    ///   - count: how many.
    ///   - atEnd: is called when one more is asked for; by then those before it were taken.
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
