// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import ServiceSupport

/// Goal: no client can hold a connection for longer than the time limits.
@Suite struct HTTPConnectionHandlerTests {
    private static let requestDurationMax = HTTPListener.Limits().requestDuration
    private static let idleDurationMax = HTTPListener.Limits().idleDuration

    private let channel = EmbeddedChannel()
    private let isClosed = NIOLockedValueBox(false)

    init() throws {
        let handler = HTTPConnectionHandler(HTTPConnections(countMax: 8) {}, HTTPListener.Limits())
        try self.channel.pipeline.syncOperations.addHandler(handler)
        try self.channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        self.channel.closeFuture.whenComplete { [isClosed] _ in isClosed.withLockedValue { $0 = true } }
    }

    private var isOver: Bool { self.isClosed.withLockedValue { $0 } }

    private func receive(_ parts: HTTPRequestPart...) throws {
        for part in parts { try self.channel.writeInbound(part) }
    }

    private func answer() throws {
        try self.channel.writeOutbound(HTTPResponsePart.head(HTTPResponse(status: .misdirectedRequest)))
        try self.channel.writeOutbound(HTTPResponsePart.end(nil))
    }

    private static let head = HTTPRequestPart.head(
        HTTPRequest(method: .post, scheme: "http", authority: "localhost", path: "/")
    )
    private static let body = HTTPRequestPart.body(ByteBuffer(string: "x"))

    /// Whether the connection ends after this time, and not before.
    private func ends(after duration: TimeAmount) -> Bool {
        self.channel.embeddedEventLoop.advanceTime(by: duration - .seconds(1))
        guard !self.isOver else { return false }
        self.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        return self.isOver
    }

    @Test func `a connection without a request is idle`() {
        #expect(self.ends(after: Self.idleDurationMax))
    }

    @Test func `an incomplete head has to be complete in time, however slowly it arrives`() throws {
        self.channel.embeddedEventLoop.advanceTime(by: Self.idleDurationMax - .seconds(1))
        self.channel.pipeline.fireChannelReadComplete()
        self.channel.embeddedEventLoop.advanceTime(by: .seconds(4))
        self.channel.pipeline.fireChannelReadComplete()
        #expect(self.ends(after: Self.requestDurationMax - .seconds(4)))
    }

    @Test func `the rest of a head has its own time after another request`() throws {
        try self.receive(Self.head, .end(nil))
        try self.answer()
        self.channel.embeddedEventLoop.advanceTime(by: Self.requestDurationMax)
        #expect(!self.isOver)
        self.channel.pipeline.fireChannelReadComplete()
        #expect(self.ends(after: Self.requestDurationMax))
    }

    @Test func `a request has to be complete in time`() throws {
        try self.receive(Self.head, Self.body)
        #expect(self.ends(after: Self.requestDurationMax))
    }

    @Test func `a request that was answered early still has to be complete in time`() throws {
        try self.receive(Self.head)
        try self.answer()
        #expect(self.ends(after: Self.requestDurationMax))
    }

    @Test func `after the end of a request that was answered early, the connection is idle`() throws {
        try self.receive(Self.head)
        try self.answer()
        try self.receive(Self.body, .end(nil))
        #expect(self.ends(after: Self.idleDurationMax))
    }

    @Test func `a request being answered is not limited, and after it the connection is idle`() throws {
        try self.receive(Self.head, .end(nil))
        self.channel.embeddedEventLoop.advanceTime(by: .hours(1))
        #expect(!self.isOver)
        try self.answer()
        #expect(self.ends(after: Self.idleDurationMax))
    }

    @Test func `the next request has its own time`() throws {
        try self.receive(Self.head, .end(nil))
        try self.answer()
        try self.receive(Self.head)
        #expect(self.ends(after: Self.requestDurationMax))
    }

    @Test func `a response does not make a connection idle whose client closed its side`() throws {
        try self.receive(Self.head, .end(nil))
        self.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        try self.answer()
        #expect(self.ends(after: .seconds(2)))
    }

    @Test func `a connection with one request ignores what follows, and is closed after the response`() throws {
        var limits = HTTPListener.Limits()
        limits.servesOneRequest = true
        let channel = EmbeddedChannel(handler: HTTPConnectionHandler(HTTPConnections(countMax: 8) {}, limits))
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        for part in [Self.head, Self.body, .end(nil), Self.head] { try channel.writeInbound(part) }
        var isHead: [Bool] = []
        while let part = try channel.readInbound(as: HTTPRequestPart.self) {
            if case .head = part { isHead.append(true) } else { isHead.append(false) }
        }
        #expect(isHead == [true, false], "The head, and an end that takes the place of the body.")
        try channel.writeOutbound(HTTPResponsePart.head(HTTPResponse(status: .contentTooLarge)))
        #expect(channel.isActive)
        try channel.writeOutbound(HTTPResponsePart.end(nil))
        channel.embeddedEventLoop.run()
        #expect(!channel.isActive)
    }
}
