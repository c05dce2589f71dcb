// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTestKit
import APNSTransport
import APNSWire
import ListenerFixtures
import NIOCore
import NIOPosix
import OpenSSLTLS
import ServiceLifecycle
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(2)))
struct BinaryListenerTests {
    typealias Fixture = ListenerFixture

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3], Command.allCases)
    func `notifications are passed on, and a probe after them is answered`(
        version: TLSVersion,
        command: Command
    ) async throws {
        let backend = ScriptedBackend()
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client(version: version)) {
                try await $0.send(try Fixture.frames(1...100, command: command))
                try await $0.send(try Fixture.probe(101))
                let ending = try await $0.end()
                #expect(ending.bytes == Fixture.response(.missingDeviceToken, 101))
                #expect(ending.hasCloseNotify)
            }
        }
        let record = backend.current
        #expect(record.taken.map(\.ticket.number) == Array(1...100))
        #expect(record.taken.map(\.ticket.identifier) == (1...100).map { command == .simple ? nil : UInt32($0) })
        #expect(try record.taken.map(\.notification.token) == (1...100).map { try Fixture.token($0) })
        #expect(record.taken[6].notification.payload == ByteBuffer(string: "{\"aps\":{\"alert\":\"number 7\"}}"))
        let identity = try #require(record.providers.first?.identity)
        #expect(identity.topic == Fixture.topic)
        #expect(identity.fingerprint == (try Fixture.provider.get().identity.certificate.fingerprint))
        #expect(identity.isForSandbox && identity.isForProduction)
        #expect(record.closedCount == 1)
    }

    @Test func `a stream that arrives byte by byte is parsed the same`() async throws {
        let backend = ScriptedBackend { $0 == 4 ? .rejected(.binary(.invalidToken)) : .accepted }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                var bytes = try Fixture.frames(1...6, command: .items)
                while let byte = bytes.readSlice(length: 1) { $0.push(byte) }
                #expect(try await $0.end().bytes == Fixture.response(.invalidToken, 4))
            }
        }
        #expect(backend.identifiers == [1, 2, 3, 4])
    }

    @Test func `a long stream split at any position is parsed the same`() async throws {
        let backend = ScriptedBackend()
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                var bytes = try Fixture.frames(1...5000)
                bytes.writeImmutableBuffer(try Fixture.probe(5001))
                var length = 1
                while bytes.readableBytes > 0 {
                    guard let piece = bytes.readSlice(length: min(length, bytes.readableBytes)) else { break }
                    $0.push(piece)
                    length = length * 7 % 40_009 + 1
                }
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 5001))
            }
        }
        #expect(backend.identifiers == (1...5000).map { UInt32($0) })
    }

    @Test func `a probe is answered only after the outcomes before it, which arrive in any order`() async throws {
        let backend = ScriptedBackend { _ in nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...3))
                try await provider.send(try Fixture.probe(4))
                try await backend.wait("three messages") { $0.taken.count == 3 }
                for identifier in [3, 1] as [UInt32] { backend.settle(identifier, .accepted) }
                // Another connection's lifetime on the same loops gives an early response time to arrive.
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                    try await $0.send(try Fixture.probe(9))
                    _ = try await $0.end()
                }
                #expect(provider.bytes == [])
                backend.settle(2, .rejected(.unregistered(at: nil)))
                #expect(try await provider.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
        }
    }

    @Test func `of several rejections the lowest is reported`() async throws {
        let backend = ScriptedBackend { _ in nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...5))
                try await backend.wait("five messages") { $0.taken.count == 5 }
                backend.settle(4, .rejected(.binary(.invalidToken)))
                backend.settle(2, .rejected(.binary(.invalidPayloadSize)))
                backend.settle(1, .accepted)
                #expect(try await provider.end().bytes == Fixture.response(.invalidPayloadSize, 2))
            }
        }
    }

    @Test func `a backend that requires order receives nothing after a message without an outcome`() async throws {
        let backend = ScriptedBackend(requiresOrder: true) { _ in nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...10))
                for number in 1...4 {
                    try await backend.wait("message \(number)") { $0.taken.count >= number }
                    #expect(backend.current.taken.count == number)
                    backend.settle(UInt32(number), number == 4 ? .rejected(.binary(.invalidToken)) : .accepted)
                }
                #expect(try await provider.end().bytes == Fixture.response(.invalidToken, 4))
            }
        }
        #expect(backend.identifiers == [1, 2, 3, 4])
    }

    @Test func `no more than the in-flight limit is passed on, and the rest follows`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.inFlightCountMax = 10 }
        try await Fixture.withListener(backend, configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                provider.push(try Fixture.frames(1...200))
                provider.push(try Fixture.probe(201))
                var settled: UInt32 = 0
                while settled < 200 {
                    let next = settled + 1
                    try await backend.wait("message \(next)") { $0.taken.count >= next }
                    #expect(backend.current.taken.count <= Int(settled) + 10)
                    backend.settle(next, .accepted)
                    settled = next
                }
                #expect(try await provider.end().bytes == Fixture.response(.missingDeviceToken, 201))
            }
        }
        #expect(backend.identifiers == (1...200).map { UInt32($0) })
    }

    @Test func `command 0 that fails and an unknown command end with a reset, without an error response`() async throws
    {
        let backend = ScriptedBackend { _ in .rejected(.binary(.invalidToken)) }
        try await Fixture.withListener(backend) { _, port in
            for bytes in [try Fixture.frames(1...3, command: .simple), ByteBuffer(bytes: [77, 1, 2, 3])] {
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                    try await $0.send(bytes)
                    let ending = try await $0.end()
                    #expect(ending.bytes == [])
                    #expect(!ending.hasCloseNotify)
                }
            }
        }
    }

    @Test func `a payload that is not an object is rejected with the configured status`() async throws {
        let backend = ScriptedBackend()
        let configuration = try Fixture.configuration { $0.rules.malformedPayloadStatus = .protocolError }
        try await Fixture.withListener(backend, configuration) { _, port in
            for payload in ["x", "[1]", " {", "{"] {
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                    var bytes = ByteBuffer()
                    let frame = NotificationFrame(
                        token: try Fixture.token(1),
                        payload: ByteBuffer(string: payload),
                        identifier: 5,
                        command: .enhanced
                    )
                    try frame.write(into: &bytes)
                    try await $0.send(bytes)
                    #expect(try await $0.end().bytes == Fixture.response(.protocolError, 5))
                }
            }
        }
        #expect(backend.identifiers.isEmpty)
    }

    @Test func `a provider that closes its side after sending still receives an error response`() async throws {
        let backend = ScriptedBackend { _ in nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...2))
                try await backend.wait("two messages") { $0.taken.count == 2 }
                try await provider.closeOutput()
                backend.settle(1, .accepted)
                backend.settle(2, .rejected(.binary(.invalidToken)))
                #expect(try await provider.end().bytes == Fixture.response(.invalidToken, 2))
            }
        }
    }

    /// Goal: a provider that never stops sending receives its error response.
    ///
    /// Method: it writes until a write fails or stalls; the listener reads for a short time only, and then its kernel
    /// resets the connection.
    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `the response reaches a provider that floods, each time`(version: TLSVersion) async throws {
        let backend = ScriptedBackend { $0 == 500 ? .rejected(.binary(.invalidToken)) : .accepted }
        let configuration = try Fixture.configuration {
            $0.drainTimeout = .milliseconds(100)
            $0.drainByteCountMax = 1 << 20
        }
        let flood = try Fixture.frames(501...1500)
        try await Fixture.withListener(backend, configuration) { _, port in
            var intact = 0
            let count = TestEffort.count(8, long: 40)
            for _ in 0..<count {
                let tls = try Fixture.client(version: version)
                try await ScriptedProvider.withConnection(port: port, tls: tls) { provider in
                    provider.push(try Fixture.frames(1...500))
                    do {
                        for _ in 0..<200 { try await Self.send(flood, provider, within: .milliseconds(200)) }
                    } catch {
                        // The write failed or the pipe is full, so the provider reads the reason.
                    }
                    let ending = try await provider.end()
                    if ending.bytes == Fixture.response(.invalidToken, 500) { intact += 1 }
                }
            }
            #expect(intact == count)
        }
    }

    private static func send(_ bytes: ByteBuffer, _ provider: ScriptedProvider, within limit: TimeAmount) async throws {
        struct Stalled: Error {}
        let written = provider.channel.eventLoop.makePromise(of: Void.self)
        provider.channel.writeAndFlush(bytes).cascade(to: written)
        let timer = provider.channel.eventLoop.scheduleTask(in: limit) { written.fail(Stalled()) }
        defer { timer.cancel() }
        try await written.futureResult.get()
    }
}
