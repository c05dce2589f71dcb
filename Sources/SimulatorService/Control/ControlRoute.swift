// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore

/// One operation of the control API.
struct ControlRoute: Sendable {
    let method: HTTPRequest.Method
    /// As OpenAPI writes it, such as "/notifications/{number}".
    let path: String
    let handle: @Sendable (ControlRequest) async throws -> Response

    init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ handle: @escaping @Sendable (ControlRequest) async throws -> Response
    ) {
        self.method = method
        self.path = path
        self.handle = handle
    }
}

/// What Hummingbird's router hands on with a request.
struct ControlContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.channel = source.channel
    }
}

/// A request to the control API.
struct ControlRequest: Sendable {
    /// How many bytes of a body are taken.
    static let bodyByteCountMax = 1 << 20

    let request: Request
    let context: ControlContext

    /// What stands in the path at a name.
    func parameter(_ name: String) throws -> String {
        guard let text = self.context.parameters.get(name)?.removingPercentEncoding, !text.isEmpty else {
            throw ControlError(.badRequest, "the path has nothing where {\(name)} is to be")
        }
        return text
    }

    /// The number that stands in the path at a name.
    func number(_ name: String) throws -> UInt64 {
        let text = try self.parameter(name)
        guard let number = UInt64(text) else {
            throw ControlError(.badRequest, "\(name) in the path is not a number")
        }
        return number
    }

    /// The parameters behind the question mark, of which no others are taken.
    func query(_ allowed: [String]) throws -> [String: String] {
        var values: [String: String] = [:]
        for pair in (self.request.uri.query ?? "").split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = String(parts[0]).removingPercentEncoding,
                let value = String(parts.count > 1 ? parts[1] : "").replacing("+", with: " ").removingPercentEncoding
            else { throw ControlError(.badRequest, "the query has a percent sign without two hexadecimal digits") }
            guard allowed.contains(name) else {
                let names = allowed.isEmpty ? "none" : allowed.joined(separator: ", ")
                throw ControlError(.badRequest, "unknown query parameter \(name); valid ones: \(names)")
            }
            guard values.updateValue(value, forKey: name) == nil else {
                throw ControlError(.badRequest, "the query parameter \(name) stands twice")
            }
        }
        return values
    }

    /// The bytes of the body.
    func body() async throws -> ByteBuffer {
        let tooLong = ControlError(.contentTooLarge, "a body has at most \(Self.bodyByteCountMax) bytes")
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

    /// The JSON object of the body, whose members have no other names; an empty body is an object without members.
    func object(_ allowed: [String]) async throws -> [String: JSONValue] {
        let body = try await self.body()
        guard body.readableBytes > 0 else { return [:] }
        let value: JSONValue
        do { value = try JSONValue(parsing: Array(body.readableBytesView)) } catch {
            throw ControlError(.badRequest, "the body is not JSON: \(error)")
        }
        guard case .object(let members) = value else {
            throw ControlError(.badRequest, "the body is not a JSON object")
        }
        if let name = members.keys.sorted().first(where: { !allowed.contains($0) }) {
            let names = allowed.joined(separator: ", ")
            throw ControlError(.badRequest, "unknown key \(name) in the body; valid keys: \(names)")
        }
        return members
    }
}

extension String {
    /// The text with the bytes that percent signs stand for; `nil` where these are no digits, or no UTF-8 results.
    fileprivate var removingPercentEncoding: String? {
        guard self.utf8.contains(UInt8(ascii: "%")) else { return self }
        var bytes: [UInt8] = []
        var rest = self.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(code)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
