// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import NIOTLS
import OpenSSLTLS
import Testing

/// Goal: a write's promise succeeds exactly if the peer can have read the write's last byte.
///
/// Method: the server stops reading until the client cannot write any more; then the client's socket is closed, and the
/// server reads everything that the client's kernel accepted.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct WritePromiseTests {
    @Test(
        arguments: [TLSVersion.tls1_2, .tls1_3],
        [(100, 37), (1_000, 5), (16_384, 1), (16_385, 3), (65_536, 1), (200_000, 2)] as [(Int, Int)]
    )
    func `promises succeed exactly for records that the kernel accepted completely`(
        version: TLSVersion,
        write: (byteCount: Int, perFlush: Int)
    ) async throws {
        let server = try Certificates.serverContext(version: version...version)
        let client = try Certificates.clientContext(version: version...version)
        let writer = CountedWriter(byteCount: write.byteCount, perFlush: write.perFlush)
        let serverObserver = Observer(onEvent: { context, event in
            guard case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent else { return }
            _ = context.channel.setOption(.autoRead, value: false)
        })
        try await Loopback.withConnection(
            server: server,
            client: client,
            serverObserver: serverObserver,
            bufferByteCount: Loopback.floodBufferByteCount
        ) { client, server in
            try await client.wait("handshake") { $0.isHandshakeDone }
            try await server.wait("handshake") { $0.isHandshakeDone }
            let channel = client.channel
            // Each flush writes as much as the kernel accepts; stop when it accepts nothing for a while.
            try await writer.writeUntilStalled(channel)
            client.close()
            try await client.wait("end") { $0.isInactive }
            try await writer.settled(on: channel.eventLoop)
            try await server.channel.setOption(.autoRead, value: true).get(within: .seconds(10))
            try await server.wait("end") { $0.isInactive }
            let received = server.observer.notes.received.count
            let outcomes = writer.outcomes
            #expect(outcomes.contains(true) && outcomes.contains(false), "the connection was filled")
            for (index, outcome) in outcomes.enumerated() {
                let end = (index + 1) * write.byteCount
                #expect(outcome == (end <= received), "write \(index) ends at \(end), the peer got \(received)")
                if outcome != (end <= received) { break }
            }
            #expect(server.observer.notes.received == Pattern.bytes(count: received))
        }
    }
}

/// Writes pieces of a known sequence of bytes and records the result of each write.
final class CountedWriter: Sendable {
    private struct State {
        var outcomes: [Bool?] = []
        var lastProgress = NIODeadline.now()
    }

    private let state = NIOLockedValueBox(State())
    private let byteCount: Int
    private let perFlush: Int

    init(byteCount: Int, perFlush: Int) {
        self.byteCount = byteCount
        self.perFlush = perFlush
    }

    var outcomes: [Bool] { self.state.withLockedValue { $0.outcomes.map { $0 ?? false } } }

    /// Writes until the channel is not writable, and a little more.
    private func writeUntilStuck(_ channel: any Channel) {
        // More than the buffers of loopback can hold, which grow to a few megabytes.
        while self.state.withLockedValue({ $0.outcomes.count }) * self.byteCount < 64 << 20, channel.isWritable {
            for _ in 0..<self.perFlush { self.write(channel) }
            channel.flush()
        }
        for _ in 0..<self.perFlush { self.write(channel) }
        channel.flush()
    }

    private func write(_ channel: any Channel) {
        let index = self.state.withLockedValue { state in
            state.outcomes.append(nil)
            return state.outcomes.count - 1
        }
        let bytes = Pattern.bytes(from: index * self.byteCount, count: self.byteCount)
        channel.write(ByteBuffer(bytes: bytes)).whenComplete { result in
            let hasSucceeded = if case .success = result { true } else { false }
            self.state.withLockedValue { state in
                state.outcomes[index] = hasSucceeded
                state.lastProgress = .now()
            }
        }
    }

    /// Writes until no write has completed for 200 ms.
    func writeUntilStalled(_ channel: any Channel) async throws {
        let eventLoop = channel.eventLoop
        let promise = eventLoop.makePromise(of: Void.self)
        let task = eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(50)) { _ in
            // The kernel may accept more after the peer's kernel has made room.
            if channel.isWritable { self.writeUntilStuck(channel) }
            let last = self.state.withLockedValue(\.lastProgress)
            if NIODeadline.now() - last > .milliseconds(200) { promise.succeed(()) }
        }
        defer { task.cancel() }
        try await promise.futureResult.get(within: .seconds(20))
    }

    /// Waits until every write has completed.
    func settled(on eventLoop: any EventLoop) async throws {
        let promise = eventLoop.makePromise(of: Void.self)
        let task = eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(5)) { _ in
            if self.state.withLockedValue({ $0.outcomes.allSatisfy { $0 != nil } }) { promise.succeed(()) }
        }
        defer { task.cancel() }
        try await promise.futureResult.get(within: .seconds(10))
    }
}
