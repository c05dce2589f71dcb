// SPDX-License-Identifier: Apache-2.0

import APNSWire
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Answers the requests of the control API and the page: access control, routes, and common response headers.
struct ControlResponder: Sendable {
    private let requestGuard: RequestGuard
    private let routes: [ControlRoute]
    private let logger: Logger

    init(_ configuration: ControlConfiguration, routes: [ControlRoute], logger: Logger) {
        self.requestGuard = RequestGuard(configuration)
        self.routes = routes
        self.logger = logger
    }

    private static let fields: HTTPFields = [
        .cacheControl: "no-store",
        .contentSecurityPolicy:
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
        .xContentTypeOptions: "nosniff",
    ]

    private static let furtherFields = [
        ("Cross-Origin-Resource-Policy", "same-origin"), ("Referrer-Policy", "no-referrer"),
    ].compactMap { pair in HTTPField.Name(pair.0).map { ($0, pair.1) } }

    func respond(to request: Request, on channel: any Channel) async -> Response {
        var response = await self.answer(request, channel)
        if request.method == .head {
            response = response.createHeadResponse()
        } else {
            response.compress(for: request.head)
        }
        for field in Self.fields { response.headers[field.name] = field.value }
        for (name, value) in Self.furtherFields { response.headers[name] = value }
        return response
    }

    @concurrent
    private func answer(_ request: Request, _ channel: any Channel) async -> Response {
        if let refusal = self.requestGuard.refusal(request.head) { return refusal.response }
        let path = request.uri.path.split(separator: "/")
        var matches = self.routes.compactMap { route in route.parameters(in: path).map { (route, $0) } }
        // As in OpenAPI, a path without parameters comes before one with them.
        if matches.contains(where: { $0.1.isEmpty }) { matches.removeAll { !$0.1.isEmpty } }
        let method = request.method == .head ? .get : request.method
        guard let (route, parameters) = matches.first(where: { $0.0.method == method }) else {
            return self.notFound(matches.map(\.0.method.rawValue)).response
        }
        do {
            return try await route.handle(ControlRequest(request: request, channel: channel, parameters: parameters))
        } catch let error as ControlError {
            return error.response
        } catch is HTTPParserError {
            var error = ControlError(.badRequest, "the body is not valid HTTP/1.1; check its Transfer-Encoding")
            error.headers[.connection] = "close"
            return error.response
        } catch {
            self.logger.error("control request failed", metadata: [LogKey.refusalReason: "\(error)"])
            return ControlError(.internalServerError, "the request failed: \(error)").response
        }
    }

    /// The error for an unknown path, or for a method other than the allowed ones.
    private func notFound(_ allowed: [String]) -> ControlError {
        guard !allowed.isEmpty else {
            return ControlError(.notFound, "unknown path; see /openapi.yaml for the valid ones")
        }
        let text = Set(allowed).sorted().joined(separator: ", ")
        var error = ControlError(.methodNotAllowed, "method not allowed; this path supports \(text)")
        error.headers[.allow] = text
        return error
    }
}
