// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSTransport
import APNSWire
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSServer

/// The feedback listener with providers that are refused, do not read, or do not close.
@Suite(.timeLimit(.minutes(1)))
struct FeedbackListenerTests {
    typealias Fixture = ListenerFixture

    private static let quiet = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })

    static func configuration(
        _ change: (inout FeedbackListenerConfiguration) -> Void = { _ in }
    ) throws -> FeedbackListenerConfiguration {
        var configuration = FeedbackListenerConfiguration(
            identity: try Fixture.gateway.get().identity,
            clientTrust: .pem(try Fixture.authority.get().certificatePEM)
        )
        configuration.port = 0
        configuration.versionMax = .tls1_3
        configuration.closingPause = .milliseconds(1)
        configuration.shutdownTimeout = .zero
        change(&configuration)
        return configuration
    }

    static func withListener<Value: Sendable>(
        _ store: any FeedbackStore,
        _ configuration: FeedbackListenerConfiguration? = nil,
        logger: Logger = Self.quiet,
        _ body: @escaping @Sendable (Listener, Int) async throws -> Value
    ) async throws -> Value {
        let configuration = try configuration ?? Self.configuration()
        return try await Listener(configuration, store: store, logger: logger).withRunning { listener in
            try await body(listener, try await listener.boundAddress.port)
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a refused provider receives no close_notify, and one with an empty list does`(
        _ version: TLSVersion
    ) async throws {
        let store = CountedStore(count: 0, refused: "com.example.other")
        let other = try Fixture.authority.get().issueClient(topic: "com.example.other")
        try await Self.withListener(store, try Self.configuration { $0.admitsUnverified = true }) { _, port in
            for (tls, isAdmitted) in [
                (try Fixture.client(version: version), true),
                (try Fixture.client(other.identity, version: version), false),
            ] {
                try await ScriptedProvider.withConnection(port: port, tls: tls) {
                    let ending = try await $0.end()
                    #expect(ending.bytes == [] && ending.hasCloseNotify == isAdmitted)
                    let isCut = ending.error as? TLSError == .truncated
                    #expect(isAdmitted || isCut, "\(String(describing: ending.error))")
                }
            }
        }
    }

    @Test func `the log counts the tokens that were delivered`() async throws {
        let lines = LogLines()
        let store = CountedStore(count: 2)
        try await Self.withListener(store, logger: lines.logger(.debug)) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                #expect(try await $0.received(byteCount: 76).count == 76)
                _ = try await $0.end()
            }
            try await store.wait("the acknowledgement") { $0.acknowledgedCount == 2 }
        }
        let line = try #require(lines.of("feedback delivered").first)
        #expect(line.metadata["apns.legacy.feedback.tokens"] == "2", "\(line.metadata)")
    }

    /// Goal: the store is not read further than the provider reads.
    ///
    /// Method: a list of 38 MB and a provider that reads nothing: only as much is read as fits into the sockets of both
    /// sides.
    @Test func `a provider that does not read receives no more than the sockets hold`() async throws {
        let store = CountedStore(count: 1_000_000)
        try await Self.withListener(store) { listener, port in
            let tls = try Fixture.client()
            try await ScriptedProvider.withConnection(port: port, tls: tls, isReading: false) { _ in
                try await store.wait("the list") { $0.takenCount > 0 }
                // The same event loop runs this only after its current work.
                for _ in 0..<50 {
                    try await ScriptedProvider.withConnection(port: port, tls: tls) { _ in }
                }
                #expect(store.current.takenCountOfFirst < 600_000, "\(store.current.takenCountOfFirst)")
            }
        }
    }

    @Test func `a provider that reads late receives all of a long list, which is acknowledged`() async throws {
        let count = TestEffort.count(50_000, long: 200_000)
        let store = CountedStore(count: count)
        try await Self.withListener(store) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client(), isReading: false) {
                try await store.wait("the list") { $0.takenCount > 0 }
                try await $0.channel.setOption(.autoRead, value: true).get()
                let ending = try await $0.end(within: .seconds(50))
                #expect(ending.bytes.count == count * 38 && ending.hasCloseNotify)
            }
            try await store.wait("the acknowledgement") { $0.acknowledgedCount == count }
        }
    }

    @Test func `one provider cannot occupy all connections`() async throws {
        let store = CountedStore(count: 0)
        let other = try Fixture.authority.get().issueClient(topic: "com.example.other")
        let configuration = try Self.configuration {
            $0.connectionCountMax = 12
            $0.unauthenticatedPerAddressCountMax = 12
            $0.closesBehindList = false
        }
        let lines = LogLines()
        try await Self.withListener(store, configuration, logger: lines.logger(.debug)) { listener, port in
            let tls = try Fixture.client()
            let held = try await (0..<12).asyncMap { _ in try await Self.connect(port, tls) }
            try await store.wait("the admitted connections") { $0.openedCount >= 8 }
            // Until the others are closed, the limit of all connections is reached.
            try await eventually("the others are refused") { listener.connectionCount == 8 }
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client(other.identity)) { _ in
                try await store.wait("the other provider") { $0.topics.contains("com.example.other") }
            }
            #expect(
                lines.of("connection refused").contains {
                    "\($0.metadata)".contains("connection limit of its provider")
                }
            )
            // A closed connection makes room for another.
            for channel in held { try? await channel.close().get() }
            try await eventually("all are gone") { listener.connectionCount == 0 }
            let before = store.current.openedCount
            let channel = try await Self.connect(port, tls)
            try await store.wait("another one") { $0.openedCount > before }
            try? await channel.close().get()
        }
    }

    @Test(arguments: [0, 1_000_000])
    func `a provider that neither reads its list nor closes is cut, and its list is kept`(
        _ count: Int
    ) async throws {
        let store = CountedStore(count: count)
        let configuration = try Self.configuration { $0.progressTimeout = .milliseconds(300) }
        try await Self.withListener(store, configuration) { listener, port in
            let deaf = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.allowRemoteHalfClosure, value: true)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let tls = try TLSHandler.client(try TLSContext(Fixture.client()), serverName: "localhost")
                        try channel.pipeline.syncOperations.addHandlers(tls, Deaf())
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
            try await store.wait("the list") { $0.openedCount > 0 }
            try await eventually("it is cut") { listener.connectionCount == 0 }
            #expect(store.current.acknowledgedCount == 0)
            deaf.close(promise: nil)
        }
        #expect(store.current.acknowledgementCount == 0)
    }

    /// Reads until the handshake completes, then no more; does not respond to a close.
    private final class Deaf: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = ByteBuffer

        private var isDeaf = false

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard case .handshakeCompleted = event as? TLSUserEvent else { return }
            self.isDeaf = true
            _ = try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        }

        func read(context: ChannelHandlerContext) { if !self.isDeaf { context.read() } }
    }

    /// Completes the handshake, then does nothing.
    static func connect(_ port: Int, _ configuration: TLSConfiguration) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let tls = try TLSHandler.client(try TLSContext(configuration), serverName: "localhost")
                    try channel.pipeline.syncOperations.addHandler(tls)
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }
}

extension Range<Int> {
    fileprivate func asyncMap<Value>(_ body: (Int) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for number in self { values.append(try await body(number)) }
        return values
    }
}

/// A list of a number of tokens that counts its calls.
final class CountedStore: FeedbackStore {
    struct Counts: Sendable {
        var openedCount = 0
        var takenCount = 0
        var takenCountOfFirst = 0
        var acknowledgedCount = 0
        var acknowledgementCount = 0
        var topics: Set<String> = []
    }

    private let counts = ObservedValue(Counts())
    private let count: Int
    private let refused: String?

    init(count: Int, refused: String? = nil) {
        self.count = count
        self.refused = refused
    }

    var current: Counts { self.counts.current }

    /// Waits until the counts meet a condition.
    func wait(_ what: String, _ isMet: @escaping @Sendable (Counts) -> Bool) async throws {
        try await self.counts.wait(until: isMet) {
            ScriptedBackend.DeadlineExceeded(what: "\(what): \($0)")
        }
    }

    private func note(_ body: (inout Counts) -> Void) { self.counts.change(body) }

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        let topic = provider.identity.topic ?? ""
        guard topic != self.refused else { return nil }
        self.note {
            $0.openedCount += 1
            $0.topics.insert(topic)
        }
        return List(self, isFirst: self.current.openedCount == 1)
    }

    private final class List: FeedbackList {
        private let store: CountedStore
        private let isFirst: Bool
        private var index = 0

        init(_ store: CountedStore, isFirst: Bool) {
            self.store = store
            self.isFirst = isFirst
        }

        func next(_ countMax: Int) -> [FeedbackTuple] {
            let portion = self.index..<min(self.index + countMax, self.store.count)
            self.index = portion.upperBound
            self.store.note {
                $0.takenCount += portion.count
                if self.isFirst { $0.takenCountOfFirst += portion.count }
            }
            return portion.compactMap { number in
                let bytes = [UInt8](repeating: 0, count: 24) + withUnsafeBytes(of: number.bigEndian) { Array($0) }
                return (try? DeviceToken(bytes: bytes)).map { FeedbackTuple(token: $0, failedAt: 1_700_000_000) }
            }
        }

        func acknowledge() {
            self.store.note {
                $0.acknowledgedCount += self.index
                $0.acknowledgementCount += 1
            }
        }
    }
}
