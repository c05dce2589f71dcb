// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix

/// Serves the control API and the page.
struct ControlListener: Sendable {
    /// How long open requests may take after the end of the listener.
    private static let shutdownDuration = Duration.seconds(2)

    /// The minimum time between two log messages about refused connections.
    private static let reportInterval = TimeAmount.seconds(10)

    private let configuration: ControlConfiguration
    private let routes: [ControlRoute]
    private let logger: Logger

    init(_ configuration: ControlConfiguration, routes: [ControlRoute], logger: Logger) {
        self.configuration = configuration
        self.routes = routes
        self.logger = logger
    }

    /// Listens while `body` runs.
    ///
    /// - Parameters:
    ///   - end: called before the listener ends, to release waiting requests.
    ///   - body: called with the port.
    /// - Returns: what `body` returns.
    /// - Throws: the error of `body`, or `ServerError` if it cannot listen.
    func withRunning<Value: Sendable>(
        end: @escaping @Sendable () -> Void,
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let (ports, continuation) = AsyncThrowingStream<Int, any Error>.makeStream()
        let connections = self.makeConnections()
        let server = self.server(connections) { continuation.yield($0) }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await server.run()
                    continuation.finish()
                } catch { continuation.finish(throwing: error) }
            }
            defer { group.cancelAll() }
            let result: Result<Value, any Error>
            do {
                guard let port = try await Self.first(of: ports) else { throw ServerError.notListening }
                do { result = .success(try await body(port)) } catch { result = .failure(error) }
            } catch {
                throw ServerError.listen(
                    host: self.configuration.host,
                    port: self.configuration.port,
                    detail: "\(ListenError(error))"
                )
            }
            end()
            await Self.shutDown(server, connections)
            return try result.get()
        }
    }

    private static func first(of ports: AsyncThrowingStream<Int, any Error>) async throws -> Int? {
        for try await port in ports { return port }
        return nil
    }

    /// Lets open requests complete for a limited time.
    private static func shutDown(_ server: Server<ControlChannel>, _ connections: ControlConnections) async {
        await withTaskGroup { group in
            group.addTask { try? await server.shutdownGracefully() }
            group.addTask {
                // The server waits for clients that do not read.
                if (try? await Task.sleep(for: self.shutdownDuration)) != nil { connections.closeAll() }
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func makeConnections() -> ControlConnections {
        let logger = self.logger
        let nextReport = NIOLockedValueBox(NIODeadline.distantPast)
        return ControlConnections {
            let isDue = nextReport.withLockedValue { next in
                guard next <= .now() else { return false }
                next = .now() + Self.reportInterval
                return true
            }
            guard isDue else { return }
            logger.warning(
                "control connection refused",
                metadata: [LogKey.refusalReason: "limit of \(ControlConnections.countMaxDefault) reached"]
            )
        }
    }

    private func server(
        _ connections: ControlConnections,
        onListening: @escaping @Sendable (Int) -> Void
    ) -> Server<ControlChannel> {
        // The server's own messages are not for people.
        var quiet = self.logger
        quiet.logLevel = max(quiet.logLevel, .warning)
        let responder = self.responder()
        let logger = self.logger
        let channel = ControlChannel(
            responder: { request, writer, channel in
                let context = ControlContext(source: ApplicationRequestContextSource(channel: channel, logger: logger))
                let response = try await responder.respond(to: request, context: context)
                let isHead = request.method == .head
                try await writer.write(response: response.head, body: isHead ? ResponseBody() : response.body)
            },
            connections: connections
        )
        return Server(
            childChannelSetup: channel,
            configuration: ServerConfiguration(
                address: .hostname(self.configuration.host, port: self.configuration.port)
            ),
            onServerRunning: { channel in
                try? await AcceptPauseHandler.add(to: channel, logger).get()
                onListening(channel.localAddress?.port ?? 0)
            },
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: quiet
        )
    }

    private func responder() -> RouterResponder<ControlContext> {
        let router = Router(context: ControlContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ControlMiddleware(self.configuration, routes: self.routes))
        for route in self.routes {
            router.on(RouterPath(route.path), method: route.method) { request, context in
                try await route.handle(ControlRequest(request: request, context: context))
            }
        }
        return router.buildResponder()
    }
}

/// Applies to every request: access control and common response headers.
private struct ControlMiddleware: RouterMiddleware {
    private let requestGuard: RequestGuard
    private let methods: [(path: [Substring], method: HTTPRequest.Method)]

    init(_ configuration: ControlConfiguration, routes: [ControlRoute]) {
        self.requestGuard = RequestGuard(configuration)
        self.methods = routes.map { ($0.path.split(separator: "/"), $0.method) }
    }

    private static let fields: HTTPFields = [
        .cacheControl: "no-store",
        .contentSecurityPolicy:
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
        .xContentTypeOptions: "nosniff",
    ]

    @concurrent
    func handle(
        _ request: Request,
        context: ControlContext,
        next: @concurrent (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        var response = await self.answer(request, context, next)
        if request.method != .head { response.compress(for: request.head) }
        for field in Self.fields { response.headers[field.name] = field.value }
        for (name, value) in Self.furtherFields { response.headers[name] = value }
        return response
    }

    private static let furtherFields = [
        ("Cross-Origin-Resource-Policy", "same-origin"), ("Referrer-Policy", "no-referrer"),
    ].compactMap { pair in HTTPField.Name(pair.0).map { ($0, pair.1) } }

    @concurrent
    private func answer(
        _ request: Request,
        _ context: ControlContext,
        _ next: @concurrent (Request, ControlContext) async throws -> Response
    ) async -> Response {
        if let refusal = self.requestGuard.refusal(request.head) { return refusal.response }
        do {
            return try await next(request, context)
        } catch let error as ControlError {
            return error.response
        } catch let error as HTTPError where error.status == .notFound {
            return self.notFound(request).response
        } catch is HTTPParserError {
            var error = ControlError(.badRequest, "the body is not valid HTTP/1.1; check its Transfer-Encoding")
            error.headers[.connection] = "close"
            return error.response
        } catch let error as any HTTPResponseError {
            return ControlError(error.status, "\(error)").response
        } catch {
            context.logger.error("control request failed", metadata: [LogKey.refusalReason: "\(error)"])
            return ControlError(.internalServerError, "the request failed: \(error)").response
        }
    }

    /// The error when no route matches: unknown path, or wrong method.
    private func notFound(_ request: Request) -> ControlError {
        let path = request.uri.path.split(separator: "/")
        let allowed = self.methods.filter { route in
            route.path.count == path.count
                && zip(route.path, path).allSatisfy { $0.hasPrefix("{") || $0 == $1 }
        }.map(\.method.rawValue)
        guard !allowed.isEmpty else {
            return ControlError(.notFound, "unknown path; see /openapi.yaml for the valid ones")
        }
        let text = Set(allowed).sorted().joined(separator: ", ")
        var error = ControlError(.methodNotAllowed, "method not allowed; this path supports \(text)")
        error.headers[.allow] = text
        return error
    }
}
