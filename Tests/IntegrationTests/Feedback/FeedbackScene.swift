// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import TokenStore

/// A feedback service that deletes each tuple as soon as it is taken for writing.
final class ForgetfulStore: FeedbackStore {
    private struct State {
        var tuples: [FeedbackTuple] = []
        /// The tuples that each connection took, in order.
        var taken: [[FeedbackTuple]] = []
        var acknowledgedCount = 0
    }

    private let state = NIOLockedValueBox(State())
    let faults: [Fault]
    /// Yields an element for each new connection.
    let opened: AsyncStream<Void>
    private let openedContinuation: AsyncStream<Void>.Continuation

    init(faults: [Fault] = []) {
        self.faults = faults
        (self.opened, self.openedContinuation) = AsyncStream.makeStream()
    }

    func add(_ tuples: [FeedbackTuple]) { self.state.withLockedValue { $0.tuples += tuples } }

    var taken: [[FeedbackTuple]] { self.state.withLockedValue(\.taken) }

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        let index = self.state.withLockedValue { state in
            state.taken.append([])
            return state.taken.count - 1
        }
        self.openedContinuation.yield()
        return List(self, index)
    }

    private final class List: FeedbackList {
        private let store: ForgetfulStore
        private let index: Int

        init(_ store: ForgetfulStore, _ index: Int) {
            self.store = store
            self.index = index
        }

        func next(_ countMax: Int) -> [FeedbackTuple] {
            self.store.state.withLockedValue { state in
                let portion = Array(state.tuples.prefix(min(countMax, 20)))
                state.tuples.removeFirst(portion.count)
                state.taken[self.index] += portion
                return portion
            }
        }

        func acknowledge() { self.store.state.withLockedValue { $0.acknowledgedCount += 1 } }
    }
}

extension SendScene {
    static func tuple(_ number: Int) throws -> FeedbackTuple {
        FeedbackTuple(token: try DeviceToken(Self.token(number)), failedAt: UInt32(1_600_000_000 + number))
    }

    var spool: String { self.purgeList + ".spool" }

    /// The arguments of `apns-legacy feedback`.
    func feedback(_ port: Int, _ more: [String] = []) -> [String] {
        ["feedback"] + self.endpoint(port) + ["--purge-list", self.purgeList] + more
    }

    /// The tokens of the purge list, each of which has one entry.
    func purged() throws -> Set<[UInt8]> {
        var tokens: Set<[UInt8]> = []
        var count = 0
        guard FileManager.default.fileExists(atPath: self.purgeList) else { return [] }
        try PurgeList(path: self.purgeList).entries {
            tokens.insert($0.token)
            count += 1
        }
        guard count == tokens.count else { throw Child.Failure(description: "\(count - tokens.count) are doubled.") }
        return tokens
    }

    /// The topics whose lists were read completely.
    func knownTopics() throws -> [String] {
        let list = try PurgeList(path: self.purgeList)
        defer { list.close() }
        return try list.knownScopes().map(\.topic)
    }

    /// The tokens of complete tuples in the spool, read by independent code.
    func spooled() -> [[UInt8]] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: self.spool)) ?? []
        return names.sorted().filter { $0.hasSuffix(".spool") }.flatMap { name -> [[UInt8]] in
            var bytes = [UInt8](FileManager.default.contents(atPath: self.spool + "/" + name) ?? Data())[...]
            func number(_ slice: ArraySlice<UInt8>) -> Int { slice.reduce(0) { $0 << 8 | Int($1) } }
            guard bytes.count >= 16 else { return [] }
            bytes = bytes.dropFirst(16 + number(bytes.dropFirst(8).prefix(4)) + 32)
            var content: [UInt8] = []
            while bytes.count > 40, case let count = number(bytes.prefix(4)) {
                content += bytes.dropFirst(40).prefix(count)
                bytes = bytes.dropFirst(40 + count)
            }
            var tokens: [[UInt8]] = []
            var rest = content[...]
            while rest.count >= 6, case let count = number(rest.dropFirst(4).prefix(2)), rest.count >= 6 + count {
                tokens.append(Array(rest.dropFirst(6).prefix(count)))
                rest = rest.dropFirst(6 + count)
            }
            return tokens
        }
    }

    /// The file names in the spool, without locks and times.
    var spoolNames: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: self.spool)) ?? []
        return names.filter { !$0.hasSuffix(".lock") && !$0.hasSuffix(".next") }.sorted()
    }

    static func withFeedback<Value: Sendable>(
        _ store: any FeedbackStore,
        _ change: (inout FeedbackListenerConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (_ port: Int) async throws -> Value
    ) async throws -> Value {
        var configuration = FeedbackListenerConfiguration(
            identity: try Self.gateway.get().identity,
            clientTrust: .pem(try Self.authority.get().certificatePEM)
        )
        configuration.port = 0
        configuration.closingPause = .milliseconds(1)
        configuration.shutdownTimeout = .zero
        change(&configuration)
        let faults = (store as? ForgetfulStore)?.faults ?? []
        try ConnectionFaults(faults).configure(&configuration.listener, as: .feedback)
        let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })
        return try await Listener(configuration, store: store, logger: logger).withRunning { listener in
            try await body(try await listener.boundAddress.port)
        }
    }
}
