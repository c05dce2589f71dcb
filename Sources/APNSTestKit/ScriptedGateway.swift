// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import NIOCore
public import NIOPosix
public import OpenSSLTLS

/// A push gateway on loopback that follows a script for each connection, and records what it receives.
///
/// It tests how a provider handles faults. It rejects only what a script rejects.
///
/// ```swift
/// let gateway = try await ScriptedGateway.start(tls: server) { connection in
///     GatewayScript {
///         $0.action = { _, index in connection == 1 && index == 3 ? .refuse(.invalidToken) : .accept }
///         $0.answerDelay = .milliseconds(200)
///         $0.cut = .reset
///     }
/// }
/// // … let a provider send to 127.0.0.1, port gateway.port …
/// let records = gateway.records
/// try await gateway.stop()
/// ```
public final class ScriptedGateway: Sendable {
    /// A condition was not met in time.
    public struct DeadlineExceeded: Error, Sendable {
        /// The records at the time limit.
        public let records: [GatewayRecord]
    }

    /// The TCP port on which it listens.
    public let port: Int

    private let listener: any Channel
    private let recorder: Recorder

    private init(listener: any Channel, port: Int, recorder: Recorder) {
        self.listener = listener
        self.port = port
        self.recorder = recorder
    }

    /// Starts a gateway.
    ///
    /// - Parameters:
    ///   - tls: a server's TLS configuration, such as that of `CertificateAuthority.makeServerTLS(names:)`.
    ///   - host: the address to listen on; by default loopback.
    ///   - port: the TCP port; by default any free port.
    ///   - eventLoopGroup: the event loops; by default NIO's singleton.
    ///   - script: returns the script of a connection, by its number from 1; by default that of a correct gateway.
    /// - Returns: a listening gateway, to be stopped with ``stop()``.
    /// - Throws: errors of TLS and of the socket.
    public static func start(
        tls: TLSConfiguration,
        host: String = "127.0.0.1",
        port: Int = 0,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        script: @escaping @Sendable (_ connection: Int) -> GatewayScript = { _ in GatewayScript() }
    ) async throws -> ScriptedGateway {
        let context = try TLSContext(tls)
        let recorder = Recorder()
        let listener = try await ServerBootstrap(group: eventLoopGroup)
            .serverChannelOption(.backlog, value: 64)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = recorder.enter(channel)
                    let script = script(number)
                    if script.opening == .closeBeforeHandshake { throw ChannelError.eof }
                    let sync = channel.pipeline.syncOperations
                    try sync.addHandler(RawCloseHandler())
                    if script.opening != .neverShakeHands { try sync.addHandler(TLSHandler.server(context)) }
                    try sync.addHandler(GatewayPeer(number: number, script: script, recorder: recorder))
                }
            }
            .bind(host: host, port: port).get()
        return ScriptedGateway(listener: listener, port: listener.localAddress?.port ?? 0, recorder: recorder)
    }

    /// The records of all connections, in the order of accepting.
    public var records: [GatewayRecord] { self.recorder.state.current.records }

    /// Waits until the records meet a condition.
    ///
    /// - Parameters:
    ///   - limit: the maximum time to wait; by default 20 seconds.
    ///   - isMet: the condition.
    /// - Throws: ``DeadlineExceeded``.
    public func wait(
        within limit: Duration = .seconds(20),
        until isMet: @escaping @Sendable ([GatewayRecord]) -> Bool
    ) async throws {
        try await self.recorder.state.wait(within: limit, until: { isMet($0.records) }) {
            DeadlineExceeded(records: $0.records)
        }
    }

    /// Stops listening, closes all connections, and waits until this is done.
    ///
    /// - Throws: errors of the socket.
    public func stop() async throws {
        try await self.listener.close()
        for channel in self.recorder.state.current.channels {
            channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
            try? await channel.closeFuture.get()
        }
    }
}

extension ScriptedGateway {
    /// The records and channels of the connections.
    final class Recorder: Sendable {
        struct State: Sendable {
            var records: [GatewayRecord] = []
            var channels: [any Channel] = []
        }

        let state = ObservedValue(State())

        func enter(_ channel: any Channel) -> Int {
            self.state.change { state in
                state.channels.append(channel)
                state.records.append(GatewayRecord(number: state.records.count + 1))
                return state.records.count
            }
        }

        func change(_ number: Int, _ change: (inout GatewayRecord) -> Void) {
            self.state.change { change(&$0.records[number - 1]) }
        }
    }
}

extension ScriptedGateway: CustomStringConvertible, CustomReflectable {
    /// The address, in one line.
    public var description: String { "scripted gateway on port \(self.port)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
