// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import HTTPTypes
import HummingbirdCore
import NIOCore

/// One operation of the control API.
struct ControlRoute: Sendable {
    let method: HTTPRequest.Method
    /// The path as in OpenAPI, such as "/notifications/{number}".
    let path: String
    private let components: [Substring]
    let handle: @Sendable (ControlRequest) async throws -> Response

    init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ handle: @escaping @Sendable (ControlRequest) async throws -> Response
    ) {
        self.method = method
        self.path = path
        self.components = path.split(separator: "/")
        self.handle = handle
    }

    /// Returns the parameters in a path, still percent-encoded; `nil` if it is not the path of this operation.
    func parameters(in path: [Substring]) -> [Substring: Substring]? {
        guard path.count == self.components.count else { return nil }
        var parameters: [Substring: Substring] = [:]
        for (component, text) in zip(self.components, path) {
            if component.hasPrefix("{") {
                parameters[component.dropFirst().dropLast()] = text
            } else if component != text {
                return nil
            }
        }
        return parameters
    }
}

/// A request to the control API.
struct ControlRequest: Sendable {
    /// The maximum size of a body in bytes.
    static let bodyByteCountMax = 1 << 20

    let request: Request
    let channel: any Channel
    let parameters: [Substring: Substring]

    /// Returns the value of a path parameter.
    func parameter(_ name: String) throws -> String {
        guard let text = self.parameters[name[...]].flatMap({ PercentEncoding.decoded($0) }), !text.isEmpty else {
            throw ControlError(.badRequest, "missing {\(name)} in the path")
        }
        return text
    }

    /// Returns the number in a path parameter.
    func number(_ name: String) throws -> UInt64 {
        let text = try self.parameter(name)
        guard let number = UInt64(text) else {
            throw ControlError(.badRequest, "invalid \(name) in the path: expected a number")
        }
        return number
    }

    /// Returns the query parameters; others than the allowed ones are rejected.
    func query(_ allowed: [String]) throws -> [String: String] {
        var values: [String: String] = [:]
        for pair in (self.request.uri.query ?? "").split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = PercentEncoding.decoded(parts[0]),
                let value = PercentEncoding.decoded((parts.count > 1 ? parts[1] : "").replacing("+", with: " "))
            else { throw ControlError(.badRequest, "the query has a percent sign without two hexadecimal digits") }
            guard allowed.contains(name) else {
                let names = allowed.isEmpty ? "none" : allowed.joined(separator: ", ")
                throw ControlError(.badRequest, "unknown query parameter \(name); valid parameters: \(names)")
            }
            guard values.updateValue(value, forKey: name) == nil else {
                throw ControlError(.badRequest, "duplicate query parameter \(name)")
            }
        }
        return values
    }

    /// Whether the content type of the body is JSON.
    var isJSON: Bool {
        let type = self.request.headers[.contentType]?.prefix { $0 != ";" && $0 != " " }
        return type?.lowercased() == "application/json"
    }

    /// Returns the bytes of the body.
    func body() async throws -> ByteBuffer {
        let tooLong = ControlError(.contentTooLarge, "the body exceeds the limit of \(Self.bodyByteCountMax) bytes")
        if let length = self.request.headers[.contentLength].flatMap({ Int($0) }), length > Self.bodyByteCountMax {
            throw tooLong
        }
        var body = ByteBuffer()
        for try await var part in self.request.body {
            guard body.readableBytes + part.readableBytes <= Self.bodyByteCountMax else { throw tooLong }
            body.writeBuffer(&part)
        }
        return body
    }

    /// Returns the JSON object of the body with the allowed members; an empty body is an empty object.
    func object(_ allowed: [String]) async throws -> [String: JSONValue] {
        let body = try await self.body()
        guard body.readableBytes > 0 else { return [:] }
        let value: JSONValue
        do { value = try JSONValue(parsing: Array(body.readableBytesView)) } catch {
            throw ControlError(.badRequest, "the body is not valid JSON: \(error)")
        }
        guard case .object(let members) = value else {
            throw ControlError(.badRequest, "the body is not a JSON object")
        }
        if let name = members.keys.sorted().first(where: { !allowed.contains($0) }) {
            throw ControlError(.badRequest, "unknown key \(name.answer(asUnknownOf: allowed, "keys"))")
        }
        return members
    }
}
