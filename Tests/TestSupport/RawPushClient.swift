// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOTLS
public import OpenSSLTLS

/// A client of the HTTP/2 provider API that sends arbitrary headers, and returns complete responses.
public final class RawPushClient: Sendable {
    /// The outcome of a request.
    public enum Answer: Hashable, Sendable {
        /// The status, all headers, and the body.
        case response(status: Int, headers: [String: String], body: String)
        /// The stream was reset with this code.
        case reset(code: Int)
        /// The connection ended before a response.
        case none

        /// The status and the reason of a response, such as "400 BadTopic"; "200" without a body.
        public var text: String {
            switch self {
            case .response(let status, _, let body):
                let parts = body.split(separator: "\"", omittingEmptySubsequences: false)
                return parts.count > 3 ? "\(status) \(parts[3])" : "\(status)"
            case .reset(let code): return "reset \(code)"
            case .none: return "none"
            }
        }

        /// The value of a header of the response.
        public subscript(_ name: String) -> String? {
            if case .response(_, let headers, _) = self { headers[name] } else { nil }
        }
    }

    /// A GOAWAY frame.
    public struct Farewell: Hashable, Sendable {
        /// The number of the last processed request, from 1.
        public var lastNumber: Int
        /// The debug data.
        public var text: String
    }

    struct State: Sendable {
        var isReady = false
        var isClosed = false
        var answers: [Int: Answer] = [:]
        var farewells: [Farewell] = []
        var limits: [Int] = []
    }

    struct DeadlineExceeded: Error, CustomStringConvertible { var description: String }

    private let channel: any Channel
    private let state: ObservedValue<State>
    private let numbers = ObservedValue(0)

    private init(channel: any Channel, state: ObservedValue<State>) {
        self.channel = channel
        self.state = state
    }

    /// Runs `body` with a connection after its handshake, and closes it before this method returns or throws.
    public static func withConnection<Value: Sendable>(
        port: Int,
        tls: TLSConfiguration,
        _ body: (RawPushClient) async throws -> Value
    ) async throws -> Value {
        let state = ObservedValue(State())
        var tls = tls
        tls.applicationProtocols = ["h2"]
        let context = try TLSContext(tls)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connectTimeout(.seconds(10))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let tls = try TLSHandler.client(context, serverName: "localhost")
                    let frames = NIOHTTP2Handler(mode: .client)
                    try channel.pipeline.syncOperations.addHandlers([tls, frames, RawPushHandler(state)])
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        let client = RawPushClient(channel: channel, state: state)
        let result: Result<Value, any Error>
        do {
            try await client.wait("the handshake") { $0.isReady || $0.isClosed }
            result = .success(try await body(client))
        } catch {
            result = .failure(error)
        }
        channel.close(promise: nil)
        try? await channel.closeFuture.get()
        return try result.get()
    }

    /// Sends a request, and waits for its response.
    ///
    /// - Parameters:
    ///   - path: the path; `headers` may replace the other pseudo-headers of a valid request.
    ///   - headers: all other headers.
    ///   - body: the payload.
    /// - Returns: the outcome.
    /// - Throws: if there is no outcome in time.
    @discardableResult
    public func send(
        _ path: String,
        _ headers: [(String, String)] = [],
        body: String = "{\"aps\":{}}"
    ) async throws -> Answer {
        let number = try await self.start(path, headers, body: body)
        return try await self.answer(number)
    }

    /// Sends a request without waiting.
    ///
    /// - Returns: the number of the request, from 1.
    public func start(_ path: String, _ headers: [(String, String)] = [], body: String = "{}") async throws -> Int {
        let number = self.numbers.change {
            $0 += 1
            return $0
        }
        var all = HPACKHeaders([(":scheme", "https"), (":authority", "localhost"), (":path", path)])
        if !headers.contains(where: { $0.0 == ":method" }) { all.add(name: ":method", value: "POST") }
        for (name, value) in headers { all.add(name: name, value: value) }
        let stream = HTTP2StreamID(2 * number - 1)
        let head = HTTP2Frame.FramePayload.headers(.init(headers: all, endStream: body.isEmpty))
        self.channel.write(HTTP2Frame(streamID: stream, payload: head), promise: nil)
        if !body.isEmpty {
            let data = HTTP2Frame.FramePayload.data(
                .init(data: .byteBuffer(ByteBuffer(string: body)), endStream: true)
            )
            self.channel.write(HTTP2Frame(streamID: stream, payload: data), promise: nil)
        }
        self.channel.flush()
        return number
    }

    /// Waits for the response to a request.
    public func answer(_ number: Int) async throws -> Answer {
        try await self.wait("answer \(number)") { $0.answers[number] != nil || $0.isClosed }
        return self.state.current.answers[number] ?? .none
    }

    /// Waits for the end of the connection.
    ///
    /// - Returns: the GOAWAY frames received before.
    public func end() async throws -> [Farewell] {
        try await self.wait("the end", until: \.isClosed)
        return self.farewells
    }

    /// Waits for a GOAWAY frame.
    public func farewell() async throws -> Farewell? {
        try await self.wait("GOAWAY") { !$0.farewells.isEmpty || $0.isClosed }
        return self.farewells.first
    }

    /// The received GOAWAY frames.
    public var farewells: [Farewell] { self.state.current.farewells }

    /// The announced stream limits in order.
    public var limits: [Int] { self.state.current.limits }

    private func wait(_ what: String, until isMet: @escaping @Sendable (State) -> Bool) async throws {
        try await self.state.wait(until: isMet) { _ in DeadlineExceeded(description: "\(what) did not come") }
    }
}

/// The last handler of the client's pipeline.
private final class RawPushHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private struct Response {
        var headers: [String: String] = [:]
        var body = ""
    }

    private let state: ObservedValue<RawPushClient.State>
    private var responses: [Int: Response] = [:]

    init(_ state: ObservedValue<RawPushClient.State>) { self.state = state }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent { self.state.change { $0.isReady = true } }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        let number = (Int(frame.streamID) + 1) / 2
        switch frame.payload {
        case .headers(let head):
            for (name, value, _) in head.headers { self.responses[number, default: Response()].headers[name] = value }
            if head.endStream { self.finish(number) }
        case .data(let body):
            if case .byteBuffer(let bytes) = body.data {
                self.responses[number, default: Response()].body += String(buffer: bytes)
            }
            if body.endStream { self.finish(number) }
        case .rstStream(let code): self.state.change { $0.answers[number] = .reset(code: code.networkCode) }
        case .goAway(let last, _, let opaque):
            let farewell = RawPushClient.Farewell(
                lastNumber: (Int(last) + 1) / 2,
                text: opaque.map { String(buffer: $0) } ?? ""
            )
            self.state.change { $0.farewells.append(farewell) }
        case .settings(.settings(let settings)):
            for setting in settings where setting.parameter == .maxConcurrentStreams {
                self.state.change { $0.limits.append(setting.value) }
            }
        case .settings, .ping, .windowUpdate, .priority, .pushPromise, .alternativeService, .origin: break
        }
    }

    private func finish(_ number: Int) {
        guard let response = self.responses.removeValue(forKey: number) else { return }
        let answer = RawPushClient.Answer.response(
            status: response.headers[":status"].flatMap { Int($0) } ?? 0,
            headers: response.headers,
            body: response.body
        )
        self.state.change { $0.answers[number] = answer }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Streams closed by a GOAWAY are reported as individual errors; the connection continues.
        if error is TLSError { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.state.change {
            $0.isReady = true
            $0.isClosed = true
        }
        context.fireChannelInactive()
    }
}
