// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import SimulatorService

/// Goal: nobody holds one of the connections for longer than is written down, whatever they leave out.
@Suite struct ControlConnectionHandlerTests {
    private static let requestDurationMax = ControlConnectionHandler.requestDurationMax
    private static let idleDurationMax = ControlConnectionHandler.idleDurationMax

    private let channel = EmbeddedChannel()
    private let isClosed = NIOLockedValueBox(false)

    init() throws {
        let handler = ControlConnectionHandler(NIOLockedValueBox(0)) {}
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

    @Test func `one that says nothing is idle`() {
        #expect(self.ends(after: Self.idleDurationMax))
    }

    @Test func `a request has to come to its end`() throws {
        try self.receive(Self.head, Self.body)
        #expect(self.ends(after: Self.requestDurationMax))
    }

    @Test func `a request that was answered before its end still has to come to it`() throws {
        try self.receive(Self.head)
        try self.answer()
        #expect(self.ends(after: Self.requestDurationMax))
    }

    @Test func `after a request whose end comes behind its answer the connection is idle`() throws {
        try self.receive(Self.head)
        try self.answer()
        try self.receive(Self.body, .end(nil))
        #expect(self.ends(after: Self.idleDurationMax))
    }

    @Test func `a request that is being answered has time, and after it the connection is idle`() throws {
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

    @Test func `a client that closed its side does not become idle by the answer`() throws {
        try self.receive(Self.head, .end(nil))
        self.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        try self.answer()
        #expect(self.ends(after: .seconds(2)))
    }
}
