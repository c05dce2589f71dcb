// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOEmbedded
import NIOPosix
import NIOTLS
import OpenSSLTLS
import Testing

/// Goal: every end of a connection is reported correctly, and leaves no promise open.
@Suite(.timeLimit(.minutes(1)))
struct ClosingTests {
    private func makePair(
        _ version: TLSVersion = .tls1_3,
        halfClosure: Bool = false,
        _ change: (inout TLSConfiguration) -> Void = { _ in }
    ) throws -> EmbeddedPair {
        let pair = try EmbeddedPair(
            client: Certificates.clientContext(version: version...version, change),
            server: Certificates.serverContext(version: version...version, change)
        )
        for end in [pair.client, pair.server] { end.channel.allowRemoteHalfClosure = halfClosure }
        return pair
    }

    /// Records the result of a promise on an embedded event loop.
    final class Outcome {
        private(set) var result: Result<Void, any Error>?

        init(_ future: EventLoopFuture<Void>) {
            future.assumeIsolated().whenComplete { self.result = $0 }
        }

        var isPending: Bool { self.result == nil }

        var error: (any Error)? {
            if case .failure(let error)? = self.result { error } else { nil }
        }

        var isSuccess: Bool { !self.isPending && self.error == nil }
    }

    @Test(arguments: [TLSVersion.tls1_0, .tls1_2, .tls1_3])
    func `closing sends what was flushed, then close_notify, and waits for the peer's`(version: TLSVersion) throws {
        let pair = try self.makePair(version)
        try pair.connect()
        let flushed = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "flushed")))
        let unflushed = Outcome(pair.client.channel.write(ByteBuffer(string: "never flushed")))
        let closed = Outcome(pair.client.channel.close())
        #expect(flushed.isSuccess)
        #expect(unflushed.error as? ChannelError == .outputClosed)
        #expect(closed.isPending)
        try pair.exchange()
        #expect(pair.server.notes.received == Array("flushed".utf8))
        #expect(pair.server.notes.order == ["handshake", "data", "shutdown", "inactive"])
        #expect(pair.client.notes.order == ["handshake", "shutdown", "inactive"])
        #expect(closed.isSuccess)
    }

    @Test func `closing waits for a silent peer only up to its timeout`() throws {
        let pair = try self.makePair { $0.shutdownTimeout = .seconds(3) }
        try pair.connect()
        let closed = Outcome(pair.client.channel.close())
        pair.loop.advanceTime(by: .milliseconds(2999))
        #expect(closed.isPending)
        pair.loop.advanceTime(by: .milliseconds(1))
        #expect(closed.isSuccess)
        #expect(pair.client.notes.order == ["handshake", "inactive"])
    }

    @Test func `data that arrives while closing is delivered`() throws {
        let pair = try self.makePair()
        try pair.connect()
        _ = Outcome(pair.client.channel.close())
        _ = try pair.client.collect()
        pair.server.channel.writeAndFlush(ByteBuffer(string: "verdict"), promise: nil)
        try pair.exchange()
        #expect(pair.client.notes.order == ["handshake", "data", "shutdown", "inactive"])
        #expect(pair.client.notes.received == Array("verdict".utf8))
    }

    @Test(arguments: [TLSVersion.tls1_0, .tls1_2, .tls1_3])
    func `after closing the output, the peer may continue to write`(version: TLSVersion) throws {
        let pair = try self.makePair(version, halfClosure: true)
        try pair.connect()
        let closed = Outcome(pair.server.channel.close(mode: .output))
        #expect(closed.isSuccess && pair.server.wire.isOutputClosed)
        #expect(Outcome(pair.server.channel.write(ByteBuffer(string: "late"))).error as? ChannelError == .outputClosed)
        try pair.exchange()
        #expect(pair.client.notes.order == ["handshake", "input closed"])
        #expect(Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "more"))).isSuccess)
        try pair.exchange()
        #expect(pair.server.notes.received == Array("more".utf8))
        _ = Outcome(pair.client.channel.close(mode: .output))
        try pair.exchange()
        #expect(pair.server.notes.order == ["handshake", "data", "shutdown", "inactive"])
        #expect(pair.client.notes.order == ["handshake", "input closed", "shutdown", "inactive"])
    }

    @Test func `the peer's close_notify is answered and closes the channel unless half closure is allowed`() throws {
        let pair = try self.makePair(halfClosure: false)
        try pair.connect()
        pair.client.setWritable(false)
        let waiting = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "waiting")))
        _ = Outcome(pair.server.channel.close(mode: .output))
        try pair.exchange()
        #expect(waiting.error as? ChannelError == .eof)
        #expect(pair.client.notes.order == ["handshake", "shutdown", "inactive"])
        #expect(pair.server.notes.order == ["handshake", "shutdown", "inactive"])
    }

    @Test func `an end without close_notify is reported as truncated, after the data`() throws {
        let pair = try self.makePair()
        try pair.connect()
        pair.server.channel.writeAndFlush(ByteBuffer(string: "half a"), promise: nil)
        try pair.exchange()
        pair.client.channel.pipeline.fireChannelInactive()
        #expect(pair.client.notes.order == ["handshake", "data", "error", "inactive"])
        #expect(pair.client.notes.tlsError == .truncated)
    }

    @Test func `an end of input without close_notify is reported as truncated with half closure`() throws {
        let pair = try self.makePair(halfClosure: true)
        try pair.connect()
        pair.client.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        #expect(pair.client.notes.order == ["handshake", "error", "inactive"])
        #expect(pair.client.notes.tlsError == .truncated)
    }

    @Test(arguments: [false, true])
    func `as an option, an end of input without close_notify counts as one, and the output stays open`(
        isOutputClosed: Bool
    ) throws {
        let pair = try self.makePair(halfClosure: true) { $0.acceptsTruncation = true }
        try pair.connect()
        let client = pair.client
        if isOutputClosed { _ = Outcome(client.channel.close(mode: .output)) }
        client.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        let handler = try client.channel.pipeline.syncOperations.handler(type: TLSHandler.self)
        #expect(handler.isTruncated)
        #expect(client.notes.tlsError == nil)
        guard !isOutputClosed else {
            #expect(client.notes.order == ["handshake", "shutdown", "inactive"])
            return
        }
        #expect(client.notes.order == ["handshake", "input closed"])
        let written = Outcome(client.channel.writeAndFlush(ByteBuffer(string: "still")))
        let closed = Outcome(client.channel.close())
        try pair.exchange()
        #expect(written.isSuccess && closed.isSuccess)
        #expect(pair.server.notes.received == Array("still".utf8))
        #expect(client.notes.order == ["handshake", "input closed", "shutdown", "inactive"])
    }

    @Test func `an end of input after close_notify is reported once and is not an error`() throws {
        let pair = try self.makePair(halfClosure: true)
        try pair.connect()
        _ = Outcome(pair.server.channel.close(mode: .output))
        try pair.exchange()
        pair.client.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        #expect(pair.client.notes.order == ["handshake", "input closed"])
    }

    @Test func `a peer that resets the connection after our close is not an error`() throws {
        let pair = try self.makePair()
        try pair.connect()
        let closed = Outcome(pair.client.channel.close())
        pair.client.channel.pipeline.fireChannelInactive()
        #expect(pair.client.notes.order == ["handshake", "inactive"])
        #expect(closed.isSuccess)
    }

    @Test func `an error is reported once, before the channel's end`() throws {
        struct Cut: Error {}
        let pair = try self.makePair()
        try pair.connect()
        let unflushed = Outcome(pair.client.channel.write(ByteBuffer(string: "never")))
        pair.client.channel.pipeline.fireErrorCaught(Cut())
        pair.client.channel.pipeline.fireErrorCaught(Cut())
        #expect(pair.client.notes.order == ["handshake", "error", "inactive"])
        #expect(pair.client.notes.errors.count == 1)
        #expect(unflushed.error is Cut)
    }

    @Test func `damaged bytes are reported after earlier data, and an alert is sent`() throws {
        let pair = try self.makePair()
        try pair.connect()
        pair.server.channel.writeAndFlush(ByteBuffer(string: "sound"), promise: nil)
        pair.server.channel.writeAndFlush(ByteBuffer(string: "damaged"), promise: nil)
        _ = try pair.server.collect()
        var bytes = pair.server.underWay
        bytes.setInteger(UInt8(0), at: bytes.writerIndex - 1)
        bytes.setInteger(UInt8(0), at: bytes.writerIndex - 2)
        pair.client.channel.pipeline.fireChannelRead(bytes)
        #expect(pair.client.notes.order == ["handshake", "data", "error", "inactive"])
        #expect(pair.client.notes.received == Array("sound".utf8))
        guard case .protocolFailure? = pair.client.notes.tlsError else {
            Issue.record("\(pair.client.notes.errors)")
            return
        }
        for count in try pair.client.collect() {
            let alert = try #require(pair.client.take(count))
            if pair.server.channel.isActive { pair.server.channel.pipeline.fireChannelRead(alert) }
        }
        guard case .alert(20, _)? = pair.server.notes.tlsError else {
            Issue.record("\(pair.server.notes.errors)")
            return
        }
    }

    @Test func `a handshake timeout is reported, and its writes fail`() throws {
        let pair = try self.makePair { $0.handshakeTimeout = .seconds(4) }
        try pair.activate()
        let written = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "early")))
        pair.loop.advanceTime(by: .milliseconds(3999))
        #expect(pair.client.notes.order == [])
        pair.loop.advanceTime(by: .milliseconds(1))
        #expect(pair.client.notes.order == ["error", "inactive"])
        #expect(pair.client.notes.tlsError == .handshakeTimedOut)
        #expect(written.error as? TLSError == .handshakeTimedOut)
        #expect(pair.server.notes.tlsError == .handshakeTimedOut)
    }

    @Test func `an end during the handshake is reported`() throws {
        let pair = try self.makePair()
        try pair.activate()
        let written = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "early")))
        pair.client.channel.pipeline.fireChannelInactive()
        guard case .closedDuringHandshake? = pair.client.notes.tlsError else {
            Issue.record("\(pair.client.notes.errors)")
            return
        }
        #expect(pair.client.notes.order == ["error", "inactive"])
        #expect(written.error != nil)
    }

    @Test func `closing during the handshake fails what was written`() throws {
        let pair = try self.makePair()
        try pair.activate()
        let written = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "early")))
        let half = Outcome(pair.client.channel.close(mode: .output))
        #expect(written.isPending && half.isPending)
        let closed = Outcome(pair.client.channel.close())
        #expect(written.error as? ChannelError == .ioOnClosedChannel)
        #expect(half.error as? ChannelError == .ioOnClosedChannel)
        #expect(closed.isSuccess)
        #expect(pair.client.notes.order == ["inactive"])
    }

    @Test func `closing the output during the handshake takes place after it`() throws {
        let pair = try self.makePair(halfClosure: true)
        try pair.activate()
        let written = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "early")))
        let half = Outcome(pair.client.channel.close(mode: .output))
        try pair.exchange()
        #expect(written.isSuccess && half.isSuccess)
        #expect(pair.server.notes.order == ["handshake", "data", "input closed"])
    }

    @Test func `closing before the channel is active fails what was written`() throws {
        let pair = try self.makePair()
        let written = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "early")))
        let closed = Outcome(pair.client.channel.close())
        #expect(written.error as? ChannelError == .ioOnClosedChannel)
        #expect(closed.isSuccess)
    }

    @Test(arguments: [false, true])
    func `removing the handler fails everything that waits`(isHandshakeDone: Bool) throws {
        let pair = try self.makePair()
        if isHandshakeDone { try pair.connect() } else { try pair.activate() }
        let pipeline = pair.client.channel.pipeline
        pair.client.setWritable(false)
        let flushed = Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "flushed")))
        let unflushed = Outcome(pair.client.channel.write(ByteBuffer(string: "unflushed")))
        let half = Outcome(pair.client.channel.close(mode: .output))
        pipeline.syncOperations.removeHandler(pair.client.handler, promise: nil)
        pair.loop.run()
        for outcome in [flushed, unflushed, half] { #expect(outcome.error != nil) }
    }

    @Test func `writes after the end fail`() throws {
        let pair = try self.makePair()
        try pair.connect()
        struct Cut: Error {}
        pair.client.channel.pipeline.fireErrorCaught(Cut())
        #expect(Outcome(pair.client.channel.writeAndFlush(ByteBuffer(string: "late"))).error != nil)
    }

    @Test func `closing within the callback of a write sends close_notify after the records`() throws {
        let pair = try self.makePair()
        try pair.connect()
        let channel = pair.client.channel
        let promise = channel.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess { channel.close(promise: nil) }
        channel.write(ByteBuffer(repeating: 1, count: 20_000), promise: promise)
        channel.write(ByteBuffer(repeating: 2, count: 100_000), promise: nil)
        channel.flush()
        try pair.exchange()
        #expect(pair.server.notes.received.count == 120_000)
        #expect(pair.server.notes.order == ["handshake", "data", "shutdown", "inactive"])
    }

    @Test func `over sockets, a half-closed connection still transfers data in the other direction`() async throws {
        try await Loopback.withConnection(
            server: Certificates.serverContext(),
            client: Certificates.clientContext(),
            halfClosure: true
        ) { client, server in
            try await client.wait("handshake") { $0.isHandshakeDone }
            try await server.wait("handshake") { $0.isHandshakeDone }
            try await server.channel.writeAndFlush(ByteBuffer(string: "verdict")).get(within: .seconds(10))
            try await server.channel.close(mode: .output).get(within: .seconds(10))
            try await client.wait("close_notify") { $0.order.contains("input closed") }
            let rest = Pattern.bytes(count: 3_000_000)
            try await client.channel.writeAndFlush(ByteBuffer(bytes: rest)).get(within: .seconds(10))
            try await server.wait("the rest") { $0.received.count == rest.count }
            try await client.channel.close(mode: .output).get(within: .seconds(10))
            try await client.wait("end") { $0.isInactive }
            try await server.wait("end") { $0.isInactive }
            #expect(client.observer.notes.order == ["handshake", "data", "input closed", "shutdown", "inactive"])
            #expect(server.observer.notes.order == ["handshake", "data", "shutdown", "inactive"])
            #expect(server.observer.notes.received == rest)
        }
    }

    @Test func `over sockets, an end without close_notify is reported once`() async throws {
        try await Loopback.withConnection(
            server: Certificates.serverContext(),
            client: Certificates.clientContext()
        ) { client, server in
            try await client.wait("handshake") { $0.isHandshakeDone }
            try await server.wait("handshake") { $0.isHandshakeDone }
            try await server.channel.writeAndFlush(ByteBuffer(string: "half a")).get(within: .seconds(10))
            server.close()
            try await client.wait("end") { $0.isInactive }
            #expect(client.observer.notes.order == ["handshake", "data", "error", "inactive"])
            #expect(client.observer.notes.tlsError == .truncated)
        }
    }
}
