// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import HTTPTypes
package import HummingbirdCore
package import Logging
import NIOConcurrencyHelpers
package import NIOCore
import NIOPosix

/// Serves HTTP/1.1 for people and their tools, with limits for connections and times.
package struct HTTPListener: Sendable {
    /// Answers a request.
    package typealias Responder = @Sendable (Request, any Channel) async -> Response

    /// The limits of a listener.
    package struct Limits: Sendable {
        /// The maximum number of connections.
        ///
        /// For one more, the connection is closed that has waited longest for its client: for a request or the rest of
        /// it, or until the client reads. If there is none, the new one is closed.
        package var connectionCount = 512
        /// The time limit for a request, from the first bytes of its head, and again from the end of its head.
        package var requestDuration = TimeAmount.seconds(10)
        /// The time limit for a connection without a request.
        package var idleDuration = TimeAmount.seconds(60)
        /// How long open requests may take after the end of the listener.
        package var endingDuration = Duration.seconds(2)
        /// Whether a connection has one request, whose body is not read, and is closed after the response.
        package var servesOneRequest = false

        /// Creates the default limits.
        package init() {}
    }

    /// The minimum time between two log messages about refused connections.
    private static let reportInterval = TimeAmount.seconds(10)

    private let host: String
    private let port: Int
    private let limits: Limits
    private let logger: Logger
    private let responder: Responder

    /// Creates a listener.
    package init(
        host: String,
        port: Int,
        limits: Limits = Limits(),
        logger: Logger,
        responder: @escaping Responder
    ) {
        self.host = host
        self.port = port
        self.limits = limits
        self.logger = logger
        self.responder = responder
    }

    /// Listens while `body` runs.
    ///
    /// Returns what `body` returns.
    ///
    /// - Throws: the error of `body`, or `ServerError` if it cannot listen.
    package func withRunning<Value>(
        end: @Sendable () -> Void = {},
        _ body: (SocketAddress) async throws -> Value
    ) async throws -> Value {
        let listening = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: SocketAddress.self)
        let connections = self.makeConnections()
        let server = self.server(connections) { listening.succeed($0) }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                // Once it listens, these change nothing.
                do {
                    try await server.run()
                    listening.fail(ServerError.notListening)
                } catch { listening.fail(error) }
            }
            defer { group.cancelAll() }
            let result: Result<Value, any Error>
            do {
                let address = try await listening.futureResult.get()
                do { result = .success(try await body(address)) } catch { result = .failure(error) }
            } catch {
                throw ServerError.listen(host: self.host, port: self.port, detail: "\(ListenError(error))")
            }
            end()
            await self.shutDown(server, connections)
            return try result.get()
        }
    }

    /// Lets open requests complete for a limited time.
    private func shutDown(_ server: Server<HTTPChannel>, _ connections: HTTPConnections) async {
        await withTaskGroup { group in
            group.addTask { try? await server.shutdownGracefully() }
            group.addTask { [duration = self.limits.endingDuration] in
                // The server waits for clients that do not read. A canceled task does not wait for them.
                try? await Task.sleep(for: duration)
                connections.closeAll()
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func makeConnections() -> HTTPConnections {
        let (logger, countMax) = (self.logger, self.limits.connectionCount)
        let nextReport = NIOLockedValueBox(NIODeadline.distantPast)
        return HTTPConnections(countMax: countMax) {
            let isDue = nextReport.withLockedValue { next in
                guard next <= .now() else { return false }
                next = .now() + Self.reportInterval
                return true
            }
            guard isDue else { return }
            logger.warning(
                "HTTP connection refused",
                metadata: [LogKey.refusalReason: "limit of \(countMax) reached"]
            )
        }
    }

    private func server(
        _ connections: HTTPConnections,
        onListening: @escaping @Sendable (SocketAddress) -> Void
    ) -> Server<HTTPChannel> {
        // The server's own messages are not for people, and it reports a normal end as an error.
        var quiet = self.logger
        quiet.logLevel = .critical
        let (logger, respond) = (self.logger, self.responder)
        let channel = HTTPChannel(
            responder: { request, writer, channel in
                let response = await respond(request, channel)
                let isHead = request.method == .head
                try await writer.write(response: response.head, body: isHead ? ResponseBody() : response.body)
            },
            connections: connections,
            limits: self.limits
        )
        return Server(
            childChannelSetup: channel,
            configuration: ServerConfiguration(address: .hostname(self.host, port: self.port)),
            onServerRunning: { channel in
                try? await AcceptPauseHandler.add(to: channel, logger).get()
                if let address = channel.localAddress { onListening(address) }
            },
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: quiet
        )
    }
}
