// SPDX-License-Identifier: Apache-2.0

import APNSWire
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Answers the requests of the control API and the page.
struct ControlResponder: Sendable {
    private let responder: RouterResponder<ControlContext>
    private let logger: Logger

    init(_ configuration: ControlConfiguration, routes: [ControlRoute], logger: Logger) {
        let router = Router(context: ControlContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ControlMiddleware(configuration, routes: routes))
        for route in routes {
            router.on(RouterPath(route.path), method: route.method) { request, context in
                try await route.handle(ControlRequest(request: request, context: context))
            }
        }
        self.responder = router.buildResponder()
        self.logger = logger
    }

    func respond(to request: Request, on channel: any Channel) async -> Response {
        let source = ApplicationRequestContextSource(channel: channel, logger: self.logger)
        do { return try await self.responder.respond(to: request, context: ControlContext(source: source)) } catch {
            // The middleware answers every error.
            return Response(status: .internalServerError)
        }
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
