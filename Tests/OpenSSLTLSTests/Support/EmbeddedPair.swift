// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOEmbedded
import OpenSSLTLS

/// A client's and a server's handler without a network between them: the test transfers the bytes.
final class EmbeddedPair {
    /// One side: its channel, the data that reached the end of the pipeline, and the data in transit to the other side.
    final class End {
        let channel: EmbeddedChannel
        let handler: TLSHandler
        let observer = Observer()
        let wire = Wire()
        private(set) var underWay = ByteBuffer()

        init(_ handler: TLSHandler, loop: EmbeddedEventLoop) throws {
            self.handler = handler
            self.channel = EmbeddedChannel(loop: loop)
            try self.channel.pipeline.syncOperations.addHandlers(self.wire, handler, self.observer)
        }

        var notes: Observer.Notes { self.observer.notes }

        /// The length of each buffer that was written to the channel since the last call.
        func collect() throws -> [Int] {
            var counts: [Int] = []
            while var piece = try self.channel.readOutbound(as: ByteBuffer.self) {
                counts.append(piece.readableBytes)
                self.underWay.writeBuffer(&piece)
            }
            return counts
        }

        /// The lengths of the TLS records that are under way.
        var recordByteCounts: [Int] {
            var (bytes, counts) = (self.underWay, [Int]())
            while bytes.readInteger(as: UInt8.self) != nil, bytes.readInteger(as: UInt16.self) != nil,
                let count = bytes.readInteger(as: UInt16.self)
            {
                bytes.moveReaderIndex(forwardBy: Int(count))
                counts.append(5 + Int(count))
            }
            return counts
        }

        func take(_ count: Int) -> ByteBuffer? {
            let bytes = self.underWay.readBytes(length: min(count, self.underWay.readableBytes))
            self.underWay.discardReadBytes()
            return bytes.map { ByteBuffer(bytes: $0) }
        }

        func setWritable(_ isWritable: Bool) {
            self.channel.isWritable = isWritable
            self.channel.pipeline.fireChannelWritabilityChanged()
        }
    }

    /// Records operations on the channel; a half close does not close an embedded channel.
    final class Wire: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private(set) var isOutputClosed = false
        private(set) var isClosed = false
        private(set) var readCount = 0

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            if case .output = mode {
                self.isOutputClosed = true
                promise?.succeed(())
                return
            }
            self.isClosed = true
            context.close(mode: mode, promise: promise)
        }

        func read(context: ChannelHandlerContext) {
            self.readCount += 1
            context.read()
        }
    }

    let loop = EmbeddedEventLoop()
    let client: End
    let server: End

    init(client: TLSContext, server: TLSContext) throws {
        self.client = try End(TLSHandler.client(client, serverName: "localhost"), loop: self.loop)
        self.server = try End(TLSHandler.server(server), loop: self.loop)
    }

    deinit {
        for end in [self.client, self.server] { end.channel.close(promise: nil) }
        self.loop.advanceTime(by: .hours(1))
    }

    /// Makes both channels active and completes the handshake.
    func connect() throws {
        try self.activate()
        try self.exchange()
    }

    func activate() throws {
        let address = try SocketAddress(unixDomainSocketPath: "embedded")
        for end in [self.client, self.server] { end.channel.connect(to: address, promise: nil) }
    }

    /// Transfers bytes in both directions until there are none, at most `byteCountMax` at a time.
    func exchange(byteCountMax: Int = .max) throws {
        var isQuiet = false
        while !isQuiet {
            isQuiet = true
            for (from, to) in [(self.client, self.server), (self.server, self.client)] {
                _ = try from.collect()
                while let piece = from.take(byteCountMax), piece.readableBytes > 0 {
                    isQuiet = false
                    if to.channel.isActive {
                        to.channel.pipeline.fireChannelRead(piece)
                        to.channel.pipeline.fireChannelReadComplete()
                    }
                }
            }
            self.loop.run()
        }
    }
}
