// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS
import TokenStore

@testable import APNSFeedback

/// Certificates, made once.
enum FeedbackFixture {
    static let topic = "com.example.app"
    static let scope = TokenScope(topic: topic, environment: .sandbox)
    static let authority = Result { try CertificateAuthority() }
    static let service = Result { try Self.authority.get().issueServer() }
    static let provider = Result { try Self.authority.get().issueClient(topic: Self.topic) }

    static func tls() throws -> TLSConfiguration {
        let trust = TLSTrust.pem(try Self.authority.get().certificatePEM)
        return .client(identity: try Self.provider.get().identity, trust: trust)
    }

    static func listener(
        _ change: (inout FeedbackListenerConfiguration) -> Void = { _ in }
    ) throws -> FeedbackListenerConfiguration {
        var configuration = FeedbackListenerConfiguration(
            identity: try Self.service.get().identity,
            clientTrust: .pem(try Self.authority.get().certificatePEM)
        )
        configuration.port = 0
        configuration.closingPause = .milliseconds(10)
        change(&configuration)
        return configuration
    }

    /// A tuple whose token has its own length.
    static func tuple(_ number: Int) throws -> FeedbackTuple {
        let count = 1 + number % 100
        var bytes = [UInt8](repeating: UInt8(number & 255), count: max(3, count))
        bytes[0] = UInt8(number >> 16 & 255)
        bytes[1] = UInt8(number >> 8 & 255)
        bytes[2] = UInt8(number & 255)
        return FeedbackTuple(token: try DeviceToken(bytes: bytes), failedAt: UInt32(1_600_000_000 + number))
    }

    static func tuples(_ count: Int) throws -> [FeedbackTuple] { try (0..<count).map { try Self.tuple($0) } }

    /// Tuples with tokens of the maximum length.
    static func longTuples(_ count: Int) throws -> [FeedbackTuple] {
        try (1...count).map { try Self.tuple($0 * 100 - 1) }
    }
}

/// A list in memory that records acknowledged tokens.
final class MemoryStore: FeedbackStore {
    private struct State {
        var tuples: [FeedbackTuple]
        var openedCount = 0
        var acknowledgedCount = 0
    }

    private let state: NIOLockedValueBox<State>
    let faults: [Fault]
    /// Whether it clears its list when it begins to write it, as Apple's may have done.
    private let isForgetful: Bool

    init(
        _ tuples: [FeedbackTuple],
        isForgetful: Bool = false,
        faults: [Fault] = []
    ) {
        self.state = NIOLockedValueBox(State(tuples: tuples))
        self.isForgetful = isForgetful
        self.faults = faults
    }

    var count: Int { self.state.withLockedValue(\.tuples.count) }
    var openedCount: Int { self.state.withLockedValue(\.openedCount) }
    var acknowledgedCount: Int { self.state.withLockedValue(\.acknowledgedCount) }

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        guard provider.identity.topic == FeedbackFixture.topic else { return nil }
        let tuples = self.state.withLockedValue { state in
            state.openedCount += 1
            defer { if self.isForgetful { state.tuples = [] } }
            return state.tuples
        }
        return List(self, tuples)
    }

    private final class List: FeedbackList {
        private let store: MemoryStore
        private let tuples: [FeedbackTuple]
        private var index = 0

        init(_ store: MemoryStore, _ tuples: [FeedbackTuple]) {
            self.store = store
            self.tuples = tuples
        }

        func next(_ countMax: Int) -> [FeedbackTuple] {
            let portion = self.tuples[self.index...].prefix(countMax)
            self.index += portion.count
            return Array(portion)
        }

        func acknowledge() {
            self.store.state.withLockedValue { state in
                state.tuples.removeFirst(self.store.isForgetful ? 0 : self.index)
                state.acknowledgedCount += 1
            }
        }
    }
}

/// An endless list.
struct EndlessStore: FeedbackStore {
    private final class List: FeedbackList {
        private var number: UInt64 = 0

        func next(_ countMax: Int) -> [FeedbackTuple] {
            (0..<countMax).compactMap { _ in
                self.number += 1
                let bytes = [UInt8](repeating: 1, count: 24) + withUnsafeBytes(of: self.number.bigEndian) { Array($0) }
                return (try? DeviceToken(bytes: bytes)).map { FeedbackTuple(token: $0, failedAt: 1_600_000_000) }
            }
        }

        func acknowledge() {}
    }

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? { List() }
}

/// Records tokens in a purge list.
final class ListRecorder: Sendable {
    private let list: PurgeList
    private let sum = NIOLockedValueBox(PurgeChange())

    init(_ list: PurgeList) { self.list = list }

    /// All changes of the list.
    var change: PurgeChange { self.sum.withLockedValue { $0 } }

    func take(_ page: DeadTokenPage) throws {
        let change = try self.list.record(
            page.stream.lazy.map {
                PurgeEntry(
                    topic: page.scope.topic,
                    environment: page.scope.environment,
                    token: $0.token.bytes,
                    failedAt: $0.failedAt,
                    firstSeen: page.firstSeen,
                    source: "feedback"
                )
            }
        )
        self.sum.withLockedValue { $0 += change }
    }
}

extension PageConsumer {
    /// Delivers everything at once to a recorder.
    init(_ recorder: ListRecorder) { self.init(tokenCountMax: .max) { try recorder.take($0) } }
}

/// A folder with a spool and a purge list; removed when this object is released.
final class FeedbackFolder: Sendable {
    let path: String
    let spool: FeedbackSpool
    let list: PurgeList
    let recorder: ListRecorder

    convenience init() throws {
        let name = "feedback-\(UUID().uuidString)"
        try self.init(path: FileManager.default.temporaryDirectory.appending(path: name).path)
    }

    init(path: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        self.path = path
        self.spool = try FeedbackSpool(folder: path + "/spool")
        self.list = try PurgeList(path: path + "/dead.sqlite")
        self.recorder = ListRecorder(self.list)
    }

    deinit { try? FileManager.default.removeItem(atPath: self.path) }

    /// The files of the spool, without locks.
    var files: [String] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: self.spool.folder)
        return (names ?? []).filter { !$0.hasSuffix(".lock") && !$0.hasSuffix(".next") }.sorted()
    }

    /// The tokens of the list.
    func tokens() throws -> Set<[UInt8]> {
        var tokens: Set<[UInt8]> = []
        try self.list.entries { tokens.insert($0.token) }
        return tokens
    }

    /// A client for a port.
    func client(
        port: Int,
        tls: TLSConfiguration? = nil,
        logger: Logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() }),
        _ change: (inout FeedbackConfiguration) -> Void = { _ in }
    ) throws -> FeedbackClient {
        var configuration = FeedbackConfiguration(
            host: "localhost",
            port: port,
            tls: try tls ?? FeedbackFixture.tls(),
            scope: FeedbackFixture.scope
        )
        configuration.idleTimeout = .seconds(20)
        configuration.readTimeout = .seconds(40)
        configuration.pageTokenCountMax = .max
        change(&configuration)
        return try FeedbackClient(configuration, spool: self.spool.folder, logger: logger)
    }

    /// One drain from a port.
    func drain(
        port: Int,
        tls: TLSConfiguration? = nil,
        _ change: (inout FeedbackConfiguration) -> Void = { _ in }
    ) async throws -> FeedbackReport {
        let recorder = self.recorder
        return try await self.client(port: port, tls: tls, change).report(of: { try recorder.take($0) })
    }

    static let threads = BlockingThreads(pool: .singleton, group: MultiThreadedEventLoopGroup.singleton)

    /// Delivers what earlier drains left.
    func replay(now: Int64, into consumer: PageConsumer? = nil) async throws -> SpoolImport.Report {
        try await SpoolImport.replay(
            FeedbackFixture.scope,
            of: self.spool,
            into: consumer ?? PageConsumer(self.recorder),
            on: Self.threads,
            now: now
        )
    }

    /// One drain from a listener over a store.
    func drain(
        _ store: any FeedbackStore,
        listener: FeedbackListenerConfiguration? = nil,
        _ change: @escaping @Sendable (inout FeedbackConfiguration) -> Void = { _ in }
    ) async throws -> FeedbackReport {
        var configuration = try listener ?? FeedbackFixture.listener()
        let faults = (store as? MemoryStore)?.faults ?? []
        try ConnectionFaults(faults).configure(&configuration.listener, as: .feedback)
        return try await Listener(configuration, store: store).withRunning { listener in
            try await self.drain(port: try await listener.boundAddress.port, change)
        }
    }
}
