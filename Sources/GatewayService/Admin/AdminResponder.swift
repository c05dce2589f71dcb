// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import HummingbirdCore
import NIOCore
import ServiceSupport

/// Answers `/healthz`, `/readyz` and `/metrics`, for operators on the same machine, and `/settled`, for `gateway test`.
struct AdminResponder: Sendable {
    /// The names of the listener.
    var hosts: HostNames
    /// Returns why the gateway is unhealthy; `nil` if it is healthy.
    var problem: @Sendable () -> String?
    /// Returns what is unreachable and since when, one line each; empty if everything is reachable.
    var unreachable: @Sendable () -> [String]
    /// Returns the metrics in Prometheus' text format.
    var metrics: @Sendable () -> String
    /// Returns the number of settled notifications by provider and cause.
    var settled: @Sendable () -> [String: [String: Int]]

    /// The limits of the listener.
    static var limits: HTTPListener.Limits {
        var limits = HTTPListener.Limits()
        limits.connectionCount = 64
        limits.requestDuration = .seconds(5)
        limits.idleDuration = .seconds(5)
        // The end of a gateway does not wait for operators.
        limits.endingDuration = .zero
        limits.servesOneRequest = true
        return limits
    }

    func respond(to request: HTTPRequest) -> Response {
        let (status, text) = self.answer(request)
        return Response(
            status: status,
            headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8", .connection: "close"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
    }

    private func answer(_ request: HTTPRequest) -> (HTTPResponse.Status, String) {
        // A browser always sends a host name, and a health check over HTTP/1.0 may send none.
        if let authority = request.authority, !authority.isEmpty, let sentence = self.hosts.refusal(of: authority) {
            return (.misdirectedRequest, sentence + "\n")
        }
        if request.headerFields[.transferEncoding] != nil || request.headerFields[.contentLength] ?? "0" != "0" {
            return (.contentTooLarge, "a request with a body is not accepted\n")
        }
        guard request.method == .get || request.method == .head else { return (.methodNotAllowed, "only GET\n") }
        switch request.path {
        case "/healthz": return self.problem().map { (.serviceUnavailable, $0 + "\n") } ?? (.ok, "ok\n")
        case "/readyz":
            let problems = [self.problem()].compactMap(\.self) + self.unreachable()
            guard !problems.isEmpty else { return (.ok, "ready\n") }
            return (.serviceUnavailable, problems.map { $0 + "\n" }.joined())
        case "/metrics": return (.ok, self.metrics())
        case SettledCounts.path: return (.ok, SettledCounts.json(self.settled()))
        default: return (.notFound, "not found; valid paths: /healthz, /readyz, /metrics\n")
        }
    }
}
