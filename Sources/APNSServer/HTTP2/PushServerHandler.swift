// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOTLS
import OpenSSLTLS
import APNSTransport

/// Serves one connection, as the last handler of its channel.
final class PushServerHandler: ChannelDuplexHandler, TimedHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = Never
    typealias OutboundOut = HTTP2Frame

    /// Asks a connection to send GOAWAY, for the server's shutdown.
    struct GoAway: Sendable {}

    /// A request that is incomplete or has no response yet.
    private struct Stream {
        var headers: HPACKHeaders
        var payload = ByteBuffer()
        var byteCount = 0
        /// How many of these bytes the stream's window updates have covered.
        var reportedByteCount = 0
        /// The number of the request on the connection, from 1; 0 while it is incomplete.
        var requestNumber: UInt64 = 0
        /// When the request was complete.
        var receivedAt = NIODeadline.uptimeNanoseconds(0)
        /// The identifier for the response: the client's own, or a new one.
        var apnsID: String?
        /// The format of the signature of its provider token; `nil` if none was verified.
        var tokenSignature: ES256SignatureFormat?
        /// The value of `apns-unique-id` if the request is accepted.
        var apnsUniqueID: PushIdentifier?
        /// The app of a request about broadcast channels; `nil` for a notification to a device.
        var broadcastApp: String?
    }

    private let connection: Listener.Connection
    private let configuration: HTTP2ListenerConfiguration
    private let service: any PushService
    private let channels: BroadcastChannels?
    private let validator: ProviderTokenValidator
    private(set) var context: ChannelHandlerContext?
    private var streams: [UInt32: Stream] = [:]
    private var memory = ProviderTokenValidator.Memory()
    /// The credentials of the client's certificate; `nil` without a certificate, or before they were read.
    private var credentials: CertificateCredentials?
    private var requestCount: UInt64 = 0
    private var newest: UInt32 = 0
    private var limit: Int
    private var isGoingAway = false
    /// Whether requests are processed; `false` when the connection ends and no response could be sent.
    private var acceptsRequests = true
    private var unreportedByteCount = 0
    private var drainTimer: Scheduled<Void>?
    private var lastReadAt: NIODeadline
    private var idleTimer: Scheduled<Void>?

    /// The connection's flow-control window in bytes.
    private static let windowByteCount = 1 << 20

    private static let drainTimeout = TimeAmount.seconds(2)

    /// The maximum number of bytes kept of a body; longer ones are counted and rejected.
    private let bodyByteCountMax: Int

    /// The initial window of a stream in bytes.
    private static let streamWindowByteCount = 65_535

    /// The maximum length in bytes of a too long body that is still read to its end.
    private static let skippedByteCountMax = 8 << 20

    init(
        _ connection: Listener.Connection,
        _ configuration: HTTP2ListenerConfiguration,
        service: any PushService,
        validator: ProviderTokenValidator
    ) {
        self.connection = connection
        self.configuration = configuration
        self.service = service
        self.channels = service.channels
        self.validator = validator
        self.limit = configuration.streamCountFirst
        self.bodyByteCountMax = configuration.payloadByteCountMax(of: .voip)
        self.lastReadAt = connection.eventLoop.now
    }

    private var tls: any TLSFacts { self.connection.tls }

    private var logger: Logger { self.connection.logger }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        self.lastReadAt = context.eventLoop.now
        let number = UInt32(Int(frame.streamID))
        switch frame.payload {
        case .headers(let head): self.received(head, number)
        case .data(let body): self.received(body, number)
        case .rstStream: self.streams[number] = nil
        case .goAway: self.closeWhenIdle()
        case .settings, .ping, .windowUpdate, .priority, .pushPromise, .alternativeService, .origin: break
        }
    }

    private func received(_ head: HTTP2Frame.FramePayload.Headers, _ number: UInt32) {
        guard !self.isGoingAway || number <= self.newest else { return }
        self.newest = max(self.newest, number)
        // Trailers are ignored.
        if self.streams[number] == nil { self.streams[number] = Stream(headers: head.headers) }
        if head.endStream { self.ended(number) }
    }

    private func received(_ body: HTTP2Frame.FramePayload.Data, _ number: UInt32) {
        if case .byteBuffer(let bytes) = body.data {
            self.unreportedByteCount += bytes.readableBytes
            self.append(bytes, number)
        }
        if body.endStream {
            self.ended(number)
        } else {
            self.readOn(number)
        }
    }

    /// Lets a client send the rest of a too long body, so that it reads the response.
    ///
    /// An excessively long body is answered before its end.
    private func readOn(_ number: UInt32) {
        guard var stream = self.streams[number] else { return }
        let unreported = stream.byteCount - stream.reportedByteCount
        // The window of a stream has 65,535 bytes.
        guard unreported >= Self.streamWindowByteCount / 2 else { return }
        guard stream.byteCount > Self.skippedByteCountMax else {
            stream.reportedByteCount = stream.byteCount
            self.streams[number] = stream
            return self.send(.windowUpdate(windowSizeIncrement: unreported), stream: number)
        }
        self.ended(number)
        guard self.streams[number] == nil else { return }
        // RFC 9113, section 8.1: the rest of the request is not needed.
        self.send(.rstStream(.noError), stream: number)
    }

    private func append(_ bytes: ByteBuffer, _ number: UInt32) {
        guard var stream = self.streams.removeValue(forKey: number) else { return }
        stream.byteCount += bytes.readableBytes
        let room = min(bytes.readableBytes, self.bodyByteCountMax - stream.payload.readableBytes)
        if stream.payload.readableBytes == 0, room == bytes.readableBytes {
            stream.payload = bytes
        } else if room > 0, let begin = bytes.getSlice(at: bytes.readerIndex, length: room) {
            stream.payload.writeImmutableBuffer(begin)
        }
        self.streams[number] = stream
    }

    /// Called when a request is complete.
    private func ended(_ number: UInt32) {
        guard self.acceptsRequests else { return }
        self.requestCount += 1
        self.streams[number]?.requestNumber = self.requestCount
        self.streams[number]?.receivedAt = .now()
        guard let stream = self.streams[number] else { return }
        let reply: PushReply?
        let topics = self.certificate?.topics ?? []
        switch PushRequestHead.read(stream.headers, certificateTopics: topics, hasChannels: self.channels != nil) {
        case .broadcast: reply = self.carryOutBroadcast(stream, number)
        case .refused(let identifier, let refusal):
            self.streams[number]?.apnsID = Self.text(of: identifier, stream.headers)
            reply = .explained(refusal)
        case .head(let head):
            self.streams[number]?.apnsID = Self.text(of: head.apnsID, stream.headers)
            reply = self.check(head, stream, number)
        }
        if let reply { self.answer(number, reply) }
    }

    /// Returns the client's own spelling of the identifier, for clients that compare text.
    private static func text(
        of identifier: PushIdentifier,
        _ headers: HPACKHeaders,
        _ name: String = "apns-id"
    ) -> String {
        guard let text = headers.first(name: name), PushIdentifier(text) == identifier else {
            return identifier.description
        }
        return text
    }

    /// Checks a request with valid headers: credentials, then payload, then device token.
    private func check(_ head: PushRequestHead, _ stream: Stream, _ number: UInt32) -> PushReply? {
        guard let context = self.context, let topic = head.topic else { return nil }
        // Without valid credentials, a client learns nothing about a token.
        if let refusal = self.permission(head.authorization, head.pushType, topic: topic, number) {
            return .explained(refusal)
        }
        let token: DeviceToken
        switch self.content(head, stream) {
        case .failure(let refusal): return .explained(refusal)
        case .success(let found): token = found
        }
        let apnsUniqueID = self.makeUniqueIdentifier()
        self.streams[number]?.apnsUniqueID = apnsUniqueID
        let request = InboundPush(
            token: token,
            payload: stream.payload,
            topic: topic,
            pushType: head.pushType,
            priority: head.priority,
            expiration: head.expiration,
            collapseID: head.collapseID,
            apnsID: head.apnsID,
            apnsUniqueID: apnsUniqueID,
            tokenSignature: self.streams[number]?.tokenSignature,
            headers: PushHeaders(stream.headers),
            connectionNumber: self.connection.number,
            number: stream.requestNumber,
            receivedAt: stream.receivedAt,
            ticket: PushTicket(
                stream: number,
                channel: context.channel,
                receiver: NIOLoopBound(self, eventLoop: context.eventLoop)
            )
        )
        return self.service.handle(request)
    }

    /// Checks device token and payload, in the order of the binary protocol.
    private func content(_ head: PushRequestHead, _ stream: Stream) -> Result<DeviceToken, PushRefusal> {
        if head.tokenText.isEmpty {
            return .failure(PushRefusal(.missingDeviceToken, "the path has no device token"))
        }
        if stream.byteCount == 0 { return .failure(PushRefusal(.payloadEmpty, "there is no payload")) }
        guard let token = head.token() else {
            return .failure(
                PushRefusal(.badDeviceToken, "the device token is not 1 to 100 bytes in hexadecimal digits")
            )
        }
        let byteCountMax = self.configuration.payloadByteCountMax(of: head.pushType)
        guard stream.byteCount <= byteCountMax else {
            let detail = "the payload has \(stream.byteCount) bytes, the limit is \(byteCountMax)"
            return .failure(PushRefusal(.payloadTooLarge, detail))
        }
        if let check = unsafe self.configuration.payloadCheck, unsafe !stream.payload.withUnsafeReadableBytes(check) {
            return .failure(PushRefusal(.payloadEmpty, "the payload is not a JSON object"))
        }
        return .success(token)
    }

    // MARK: Broadcasts

    /// Checks and carries out a request about broadcast channels; returns why it is rejected, `nil` if it is answered.
    private func carryOutBroadcast(_ stream: Stream, _ number: UInt32) -> PushReply? {
        guard let channels = self.channels else { return nil }
        var random = SystemRandomNumberGenerator()
        let identifier = BroadcastRequest.identifier(stream.headers) ?? PushIdentifier(using: &random)
        self.streams[number]?.apnsID = Self.text(of: identifier, stream.headers, "apns-request-id")
        self.streams[number]?.broadcastApp = BroadcastRequest.bundleID(stream.headers.first(name: ":path") ?? "") ?? ""
        do throws(PushRefusal) {
            let request = try BroadcastRequest(stream.headers)
            let refusal = self.permission(request.authorization, .liveActivity, topic: request.bundleID, number)
            if let refusal {
                throw refusal.reason == .topicDisallowed ? PushRefusal(.topicMismatch, refusal.detail) : refusal
            }
            let response = try request.carryOut(
                channels,
                stream.payload,
                byteCount: stream.byteCount,
                isPayload: { unsafe self.configuration.payloadCheck.map($0.withUnsafeReadableBytes) ?? true }
            )
            self.accept(request, response, identifier, number)
            return nil
        } catch {
            return .explained(error)
        }
    }

    private func accept(
        _ request: BroadcastRequest,
        _ response: BroadcastRequest.Response,
        _ identifier: PushIdentifier,
        _ number: UInt32
    ) {
        guard var stream = self.streams.removeValue(forKey: number) else { return }
        if request.operation == .send {
            var random = SystemRandomNumberGenerator()
            stream.apnsUniqueID = PushIdentifier(using: &random)
            self.service.accepted(
                InboundBroadcast(
                    bundleID: request.bundleID,
                    channelID: request.channelID ?? "",
                    payload: stream.payload,
                    priority: request.priority,
                    expiration: request.expiration,
                    apnsRequestID: identifier,
                    apnsUniqueID: stream.apnsUniqueID,
                    tokenSignature: stream.tokenSignature,
                    headers: PushHeaders(stream.headers),
                    connectionNumber: self.connection.number,
                    number: stream.requestNumber,
                    receivedAt: stream.receivedAt
                )
            )
        }
        var headers = self.headers(status: response.status, stream)
        if let id = response.channelID { headers.add(name: "apns-channel-id", value: id, indexing: .nonIndexable) }
        self.respond(number, headers, response.body)
        self.setLimit(self.configuration.streamCountMax)
    }

    private func makeUniqueIdentifier() -> PushIdentifier? {
        guard self.configuration.addsUniqueID else { return nil }
        var random = SystemRandomNumberGenerator()
        return PushIdentifier(using: &random)
    }

    /// Cached, since it is used for each request and reading it is expensive.
    private var certificate: CertificateCredentials? {
        if self.credentials == nil {
            self.credentials = self.tls.peerCertificate.map {
                CertificateCredentials($0, intermediates: self.tls.peerIntermediates, self.configuration)
            }
        }
        return self.credentials
    }

    /// Returns why the client may not send for this topic.
    private func permission(
        _ authorization: String?,
        _ pushType: PushType?,
        topic: String,
        _ number: UInt32
    ) -> PushRefusal? {
        if let certificate = self.certificate {
            return certificate.problem(topic: topic, pushType: pushType, self.configuration)
        }
        let now = self.configuration.clock().secondsSince1970
        let result = self.validator.validate(authorization, &self.memory, now: now)
        self.streams[number]?.tokenSignature = result.signature
        if let refusal = result.refusal { return refusal }
        let key = self.memory.keyID.flatMap { self.configuration.tokenKeys[$0] }
        guard key?.allows(topic) == true else { return PushRefusal(.topicDisallowed, "the key is not for this topic") }
        guard HTTP2ListenerConfiguration.has(topic, self.configuration.environment) else {
            return PushRefusal(.topicDisallowed, "passes exist only in production")
        }
        return nil
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.unreportedByteCount >= Self.windowByteCount / 2 {
            self.send(.windowUpdate(windowSizeIncrement: self.unreportedByteCount))
            self.unreportedByteCount = 0
        }
        context.flush()
        self.closeWhenIdle()
        context.fireChannelReadComplete()
    }

    // MARK: Answering

    func isAwaiting(_ number: UInt32) -> Bool { self.context != nil && self.streams[number] != nil }

    func stopAccepting() { self.acceptsRequests = false }

    /// Processes a response that comes later.
    func settle(_ number: UInt32, _ reply: PushReply) {
        guard self.streams[number] != nil, let context = self.context else { return }
        self.answer(number, reply)
        context.flush()
        self.closeWhenIdle()
    }

    private func answer(_ number: UInt32, _ reply: PushReply) {
        switch reply {
        case .accepted: self.accept(number)
        case .rejected(let rejection): self.reject(number, rejection, nil)
        case .explained(let rejection, let detail): self.reject(number, rejection, detail)
        case .refused: self.refuse(number)
        case .lastAccepted(let reason):
            self.accept(number)
            self.goAway(behind: self.newest, reason)
        case .goingAway(let reason):
            let last = max(number, 2) - 2
            for unprocessed in self.streams.keys where unprocessed > last { self.streams[unprocessed] = nil }
            self.goAway(behind: last, reason)
        }
    }

    private func accept(_ number: UInt32) {
        guard let stream = self.streams.removeValue(forKey: number) else { return }
        self.respond(number, self.headers(status: 200, stream), nil)
        self.setLimit(self.configuration.streamCountMax)
    }

    private func reject(_ number: UInt32, _ rejection: PushRejection, _ detail: String?) {
        guard let stream = self.streams.removeValue(forKey: number) else { return }
        let body = JSONObject { object in
            object.add("reason", rejection.reason.text)
            object.add("timestamp", rejection.timestampNumber)
        }
        self.respond(number, self.headers(status: rejection.status, stream), ByteBuffer(bytes: body.bytes))
        self.logger.debug(
            "push refused",
            metadata: [
                LogKey.request: "\(stream.apnsID ?? "")",
                LogKey.refusalReason: "\(rejection.reason.text)",
                LogKey.refusalDetail: "\(detail ?? "")",
            ]
        )
        if self.configuration.limitsStreamsAfterRejection { self.setLimit(1) }
        if self.service.observesRefusals { self.report(stream, rejection, detail) }
    }

    private func report(_ stream: Stream, _ rejection: PushRejection, _ detail: String?) {
        self.service.refused(
            RefusedPush(
                connectionNumber: self.connection.number,
                number: stream.requestNumber,
                receivedAt: stream.receivedAt,
                headers: PushHeaders(stream.headers),
                tokenText: PushRequestHead.tokenText(stream.headers),
                topic: stream.broadcastApp
                    ?? PushRequestHead.topic(stream.headers, certificateTopics: self.certificate?.topics ?? []),
                payload: stream.payload,
                payloadByteCount: stream.byteCount,
                apnsID: stream.apnsID,
                rejection: rejection,
                detail: detail,
                tokenSignature: stream.tokenSignature
            )
        )
    }

    private func headers(status: Int, _ stream: Stream) -> HPACKHeaders {
        var headers = HPACKHeaders([(":status", "\(status)")])
        if let identifier = stream.apnsID {
            let name = stream.broadcastApp == nil ? "apns-id" : "apns-request-id"
            headers.add(name: name, value: identifier, indexing: .nonIndexable)
        }
        if status == 200, let identifier = stream.apnsUniqueID {
            headers.add(name: "apns-unique-id", value: "\(identifier)", indexing: .nonIndexable)
        }
        return headers
    }

    private func respond(_ number: UInt32, _ headers: HPACKHeaders, _ body: ByteBuffer?) {
        self.send(.headers(.init(headers: headers, endStream: body == nil)), stream: number)
        if let body { self.send(.data(.init(data: .byteBuffer(body), endStream: true)), stream: number) }
    }

    private func refuse(_ number: UInt32) {
        guard self.streams.removeValue(forKey: number) != nil else { return }
        self.send(.rstStream(.refusedStream), stream: number)
    }

    private func goAway(behind last: UInt32, _ reason: PushReason) {
        let data = JSONObject { $0.add("reason", reason.text) }
        self.goAway(behind: last, code: .noError, ByteBuffer(bytes: data.bytes))
    }

    private func goAway(behind last: UInt32, code: HTTP2ErrorCode, _ data: ByteBuffer? = nil) {
        guard !self.isGoingAway else { return }
        self.isGoingAway = true
        self.newest = last
        self.send(.goAway(lastStreamID: HTTP2StreamID(Int(last)), errorCode: code, opaqueData: data))
    }

    private func setLimit(_ limit: Int) {
        guard self.limit != limit else { return }
        self.limit = limit
        self.send(.settings(.settings([HTTP2Setting(parameter: .maxConcurrentStreams, value: limit)])))
    }

    private func send(_ payload: HTTP2Frame.FramePayload, stream: UInt32 = 0) {
        guard let context = self.context else { return }
        let frame = HTTP2Frame(streamID: HTTP2StreamID(Int(stream)), payload: payload)
        context.write(self.wrapOutboundOut(frame), promise: nil)
    }

    private func closeWhenIdle() {
        if self.isGoingAway, self.streams.isEmpty { self.drain() }
    }

    /// Leaves the closing to the client for a while: if a socket is closed with unread requests, the kernel resets the
    /// connection, and the client loses responses that were already sent.
    private func drain() {
        guard self.drainTimer == nil else { return }
        self.drainTimer = self.after(Self.drainTimeout) { handler, context in
            handler.stopAccepting()
            context.close(promise: nil)
        }
    }

    // MARK: Lifecycle

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        self.drainTimer?.cancel()
        self.idleTimer?.cancel()
        self.streams.removeAll()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(let name): self.handshakeCompleted(name, context)
        case let closed as StreamClosedEvent: self.streams[UInt32(Int(closed.streamID))] = nil
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func handshakeCompleted(_ name: String?, _ context: ChannelHandlerContext) {
        guard name != nil || !self.configuration.requiresApplicationProtocol else {
            context.close(promise: nil)
            return
        }
        self.connection.admission.admit(self.connection.number)
        self.send(.windowUpdate(windowSizeIncrement: Self.windowByteCount))
        if self.tls.peerCertificate != nil { self.setLimit(self.configuration.streamCountMax) }
        context.flush()
        self.watchForIdleness()
    }

    private func watchForIdleness() {
        guard let timeout = self.configuration.idleTimeout.map(TimeAmount.init) else { return }
        let delay = self.lastReadAt + timeout - self.connection.eventLoop.now
        self.idleTimer = self.after(delay) { handler, context in
            guard !handler.isGoingAway else { return }
            let now = context.eventLoop.now
            // A connection that waits for a response is not idle.
            if !handler.streams.isEmpty { handler.lastReadAt = now }
            guard handler.lastReadAt + timeout <= now else { return handler.watchForIdleness() }
            handler.goAway(behind: handler.newest, .idleTimeout)
            context.flush()
            handler.closeWhenIdle()
        }
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is GoAway else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        self.goAway(behind: self.newest, .shutdown)
        context.flush()
        self.closeWhenIdle()
        promise?.succeed()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is NIOHTTP2Errors.StreamError { return }
        // NIOHTTP2 ignores the headers of streams after the last one, but treats their bodies as an error.
        guard !self.isGoingAway else { return self.drain() }
        // Further requests would be processed, and their responses would be lost.
        self.stopAccepting()
        self.goAway(behind: self.newest, code: .protocolError)
        context.flush()
        self.logger.debug("provider's connection failed", metadata: [LogKey.failure: "\(error)"])
        context.close(promise: nil)
    }
}

extension PushReply {
    /// A rejection with the status of a documented reason.
    fileprivate static func explained(_ refusal: PushRefusal) -> Self {
        let rejection = PushRejection(status: refusal.reason.status ?? 400, reason: refusal.reason)
        return .explained(rejection, detail: refusal.detail)
    }
}

/// The permissions of a client's certificate at the HTTP/2 provider API.
struct CertificateCredentials {
    private let certificate: TLSCertificate
    private let intermediates: [TLSCertificate]
    private let identity: ProviderIdentity
    /// The topics of the certificate.
    let topics: [String]

    init(
        _ certificate: TLSCertificate,
        intermediates: [TLSCertificate],
        _ configuration: HTTP2ListenerConfiguration
    ) {
        self.certificate = certificate
        self.intermediates = intermediates
        self.identity = ProviderIdentity(certificate)
        self.topics = configuration.topics(certificate)
    }

    /// Returns why the certificate does not permit a request.
    ///
    /// It is checked per request, since it may be revoked.
    func problem(topic: String, pushType: PushType?, _ configuration: HTTP2ListenerConfiguration) -> PushRefusal? {
        if self.topics.isEmpty { return PushRefusal(.badCertificate, "the certificate names no topic") }
        if configuration.isRevoked(self.certificate, self.intermediates) {
            return PushRefusal(.badCertificate, "the certificate is revoked or fails verification")
        }
        if let environment = configuration.environment, !self.identity.allows(environment) {
            return PushRefusal(.badCertificateEnvironment, "the certificate is for the other environment")
        }
        if pushType == .location { return PushRefusal(.forbidden, "push type location requires a provider token") }
        guard self.topics.contains(topic) else {
            return PushRefusal(.topicDisallowed, "the certificate is not for this topic")
        }
        guard HTTP2ListenerConfiguration.has(topic, configuration.environment) else {
            return PushRefusal(.badCertificateEnvironment, "passes exist only in production")
        }
        return nil
    }
}
