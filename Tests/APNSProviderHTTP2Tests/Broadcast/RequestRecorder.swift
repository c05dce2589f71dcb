// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSTestKit
import APNSWire
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOTLS
import OpenSSLTLS
import Testing

/// A service that records each request with all of its header fields, and answers by a script.
final class RequestRecorder: Sendable {
    /// A complete request.
    struct Request: Sendable {
        var fields: [String]
        var body: String

        /// The value of a header field.
        subscript(_ name: String) -> String? {
            self.fields.first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
        }

        /// The header fields except those that differ each time.
        var stableFields: [String] {
            self.fields.filter { !$0.hasPrefix("authorization: ") && !$0.hasPrefix("apns-request-id: ") }
        }
    }

    /// How to answer.
    enum Answer: Sendable {
        case respond(Int, [(String, String)] = [], body: String = "")
        /// Begins an answer without its end, and closes the connection.
        case beginAndClose(Int)
        /// Closes the connection without an answer.
        case close
        /// Resets the stream.
        case reset(HTTP2ErrorCode)
        /// Never answers.
        case ignore

        /// An error response.
        static func refuse(_ status: Int, _ reason: String, _ fields: [(String, String)] = []) -> Self {
            .respond(status, fields, body: #"{"reason":"\#(reason)"}"#)
        }
    }

    struct Overdue: Error {
        let requests: [Request]
    }

    let port: Int
    private let observed: ObservedValue<[Request]>

    private init(port: Int, observed: ObservedValue<[Request]>) {
        self.port = port
        self.observed = observed
    }

    var requests: [Request] { self.observed.current }

    func wait(requestCount: Int) async throws {
        try await self.observed.wait(until: { $0.count >= requestCount }) { Overdue(requests: $0) }
    }

    /// Runs a service during a closure.
    ///
    /// - Parameters:
    ///   - script: the answer to a request, and its number from 1.
    ///   - body: receives the service.
    /// - Returns: the result of `body`.
    /// - Throws: the errors of `body` and of the socket.
    static func withRunning<Value: Sendable>(
        _ script: @escaping @Sendable (Request, _ number: Int) -> Answer,
        _ body: (RequestRecorder) async throws -> Value
    ) async throws -> Value {
        let identity = try PushFixture.server.get().identity
        var tls = TLSConfiguration.server(identity: identity, trust: try PushFixture.trust())
        tls.clientCertificates = .optional
        tls.applicationProtocols = ["h2"]
        let context = try TLSContext(tls)
        let observed = ObservedValue<[Request]>([])
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = RecordingHandler { request in
                        script(
                            request,
                            observed.change {
                                $0.append(request); return $0.count
                            }
                        )
                    }
                    try channel.pipeline.syncOperations.addHandlers(
                        TLSHandler.server(context),
                        NIOHTTP2Handler(mode: .server),
                        handler
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let service = RequestRecorder(port: listener.localAddress?.port ?? 0, observed: observed)
        let result: Result<Value, any Error>
        do { result = .success(try await body(service)) } catch { result = .failure(error) }
        try await listener.close()
        return try result.get()
    }
}

/// A connection.
private final class RecordingHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private let answer: (RequestRecorder.Request) -> RequestRecorder.Answer
    private var open: [HTTP2StreamID: RequestRecorder.Request] = [:]

    init(_ answer: @escaping (RequestRecorder.Request) -> RequestRecorder.Answer) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let head):
            let fields = head.headers.map { "\($0.name): \($0.value)" }
            self.open[frame.streamID] = RequestRecorder.Request(fields: fields, body: "")
            if head.endStream { self.ended(frame.streamID, context) }
        case .data(let body):
            if case .byteBuffer(let bytes) = body.data { self.open[frame.streamID]?.body += String(buffer: bytes) }
            if body.endStream { self.ended(frame.streamID, context) }
        default: break
        }
    }

    private func ended(_ stream: HTTP2StreamID, _ context: ChannelHandlerContext) {
        guard let request = self.open.removeValue(forKey: stream) else { return }
        switch self.answer(request) {
        case .ignore: break
        case .close: context.close(promise: nil)
        case .reset(let code): self.write(.rstStream(code), stream, context)
        case .beginAndClose(let status):
            self.write(.headers(.init(headers: [":status": "\(status)"])), stream, context)
            context.close(promise: nil)
        case .respond(let status, let fields, let body):
            let id = request["apns-request-id"].map { [("apns-request-id", $0)] } ?? []
            let headers = HPACKHeaders([(":status", "\(status)")] + id + fields)
            self.write(.headers(.init(headers: headers, endStream: body.isEmpty)), stream, context)
            var rest = ByteBuffer(string: body)
            // The client enlarges its windows as it reads; NIOHTTP2Handler keeps what does not fit.
            while let part = rest.readSlice(length: min(16_384, rest.readableBytes)), part.readableBytes > 0 {
                let isEnd = rest.readableBytes == 0
                self.write(.data(.init(data: .byteBuffer(part), endStream: isEnd)), stream, context)
            }
        }
    }

    private func write(_ payload: HTTP2Frame.FramePayload, _ stream: HTTP2StreamID, _ context: ChannelHandlerContext) {
        context.writeAndFlush(self.wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
