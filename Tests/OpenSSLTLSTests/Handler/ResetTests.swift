// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import NIOTLS
import OpenSSLTLS
import Testing

/// Goal: data that the server sent before it reset the connection is delivered before the reset is reported.
///
/// Method: the client floods the server, which reads nothing, writes six bytes and closes its socket, so that its
/// kernel responds to the unread input with RST.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ResetTests {
    enum Ending: CaseIterable, Sendable {
        case reset
        case closeNotifyThenReset
    }

    static let errorResponse: [UInt8] = [8, 8, 0, 0, 0, 42]

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3], Ending.allCases)
    func `six bytes sent before a reset arrive before any error, 40 of 40`(
        version: TLSVersion,
        ending: Ending
    ) async throws {
        let server = try Certificates.serverContext(version: version...version)
        let client = try Certificates.clientContext(version: version...version)
        var intact = 0
        for _ in 0..<40 {
            let flood = Flood()
            let serverObserver = Observer(onEvent: { context, event in
                guard case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent else { return }
                _ = context.channel.setOption(.autoRead, value: false)
            })
            let clientObserver = Observer(onEvent: { context, event in
                guard case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent else { return }
                flood.start(context)
            })
            try await Loopback.withConnection(
                server: server,
                client: client,
                serverObserver: serverObserver,
                clientObserver: clientObserver,
                bufferByteCount: Loopback.floodBufferByteCount
            ) { client, server in
                try await server.wait("handshake") { $0.isHandshakeDone }
                try await flood.waitUntilStuck(on: client.channel.eventLoop)
                try await server.channel.writeAndFlush(ByteBuffer(bytes: Self.errorResponse)).get()
                if ending == .closeNotifyThenReset {
                    server.channel.close(mode: .output, promise: nil)
                }
                server.close()
                try await client.wait("end") { $0.isInactive }
                try await flood.waitUntilSettled(on: client.channel.eventLoop)
                let notes = client.observer.notes
                #expect(notes.errors.count == (ending == .reset ? 1 : 0), "\(notes.errors)")
                #expect(flood.firstSuccessAfterFailure == false)
                let isInOrder = notes.order.starts(with: ["handshake", "data"])
                if notes.received == Self.errorResponse, isInOrder { intact += 1 }
            }
        }
        #expect(intact == 40)
    }
}

/// Writes blocks of 64 KiB, and counts the results of the writes.
final class Flood: Sendable {
    private struct Counts {
        var pending = 0
        var succeeded = 0
        var failed = 0
        var hasSucceededAfterFailure = false
        var isStopped = false
        var isStuck = false
        var stuck: [EventLoopPromise<Void>] = []
        var settled: [EventLoopPromise<Void>] = []
    }

    private let counts = NIOLockedValueBox(Counts())
    private let chunk: ByteBuffer

    init(chunkByteCount: Int = 65_536) {
        self.chunk = ByteBuffer(repeating: 0x5A, count: chunkByteCount)
    }

    var succeeded: Int { self.counts.withLockedValue(\.succeeded) }
    var failed: Int { self.counts.withLockedValue(\.failed) }
    var firstSuccessAfterFailure: Bool { self.counts.withLockedValue(\.hasSucceededAfterFailure) }

    /// Writes while the channel is writable, and continues when it is writable again.
    func start(_ context: ChannelHandlerContext) {
        self.fill(context.channel)
    }

    private func fill(_ channel: any Channel) {
        while channel.isWritable, !self.counts.withLockedValue(\.isStopped) {
            self.counts.withLockedValue { $0.pending += 1 }
            let isOurLast = !channel.isActive
            channel.writeAndFlush(self.chunk).whenComplete { result in
                self.settle(result)
                if case .success = result { channel.eventLoop.execute { self.fill(channel) } }
            }
            if isOurLast { break }
        }
        if !channel.isWritable {
            self.counts.withLockedValue { counts in
                defer { counts.stuck = [] }
                counts.isStuck = true
                return counts.stuck
            }.forEach { $0.succeed(()) }
        }
    }

    private func settle(_ result: Result<Void, any Error>) {
        let settled = self.counts.withLockedValue { counts -> [EventLoopPromise<Void>] in
            counts.pending -= 1
            switch result {
            case .success:
                counts.succeeded += 1
                if counts.failed > 0 { counts.hasSucceededAfterFailure = true }
            case .failure:
                counts.failed += 1
                counts.isStopped = true
            }
            guard counts.pending == 0 else { return [] }
            defer { counts.settled = [] }
            return counts.settled
        }
        for promise in settled { promise.succeed(()) }
    }

    /// Waits until the channel is not writable.
    func waitUntilStuck(on eventLoop: any EventLoop) async throws {
        let promise = eventLoop.makePromise(of: Void.self)
        let isStuck = self.counts.withLockedValue { counts in
            if !counts.isStuck { counts.stuck.append(promise) }
            return counts.isStuck
        }
        if isStuck { promise.succeed(()) }
        try await promise.futureResult.get(within: .seconds(20))
    }

    /// Waits until every write has completed.
    func waitUntilSettled(on eventLoop: any EventLoop) async throws {
        let promise = eventLoop.makePromise(of: Void.self)
        let isSettled = self.counts.withLockedValue { counts in
            counts.isStopped = true
            if counts.pending > 0 { counts.settled.append(promise) }
            return counts.pending == 0
        }
        if isSettled { promise.succeed(()) }
        try await promise.futureResult.get(within: .seconds(20))
    }
}
