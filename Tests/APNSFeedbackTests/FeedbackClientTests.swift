// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSServer
import APNSTestKit
import APNSTransport
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing
import TokenStore

@testable import APNSFeedback

/// Drains from our listener over TLS, with and without errors.
@Suite(.timeLimit(.minutes(2))) struct FeedbackClientTests {
    typealias Fixture = FeedbackFixture

    let folder: FeedbackFolder

    init() throws { self.folder = try FeedbackFolder() }

    func expectList(_ tuples: some Sequence<FeedbackTuple>) throws {
        #expect(try self.folder.tokens() == Set(tuples.map(\.token.bytes)))
    }

    @Test func `a list is added to the purge list and removed from the service, and the spool is empty`() async throws {
        let tuples = try Fixture.tuples(5000)
        let store = MemoryStore(tuples)
        let outcome = try await self.folder.drain(store)
        #expect(outcome.failure == nil)
        #expect(outcome.ending?.reason == .closed && outcome.tupleCount == 5000)
        #expect(self.folder.recorder.change.addedCount == Set(tuples.map(\.token)).count)
        try self.expectList(tuples)
        #expect(store.count == 0 && self.folder.files.isEmpty)
        let again = try await self.folder.drain(store)
        #expect(again.failure == nil && again.tupleCount == 0 && again.ending?.reason == .closed)
    }

    @Test func `an address of the service that refuses connections is left out`() async throws {
        let store = MemoryStore(try Fixture.tuples(10))
        let outcome = try await self.folder.drain(store) { configuration in
            let ports = [1, configuration.endpoint.port]
            configuration.addresses = ServiceAddresses(
                lookup: { _, _ in try ports.map { try SocketAddress(ipAddress: "127.0.0.1", port: $0) } },
                start: 0
            )
        }
        #expect(outcome.failure == nil && outcome.tupleCount == 10 && store.count == 0)
    }

    @Test func `a future timestamp is clamped to now, and counted`() async throws {
        let future = FeedbackTuple(token: try DeviceToken(bytes: [1, 2, 3]), failedAt: .max)
        let before = Int64(Date().timeIntervalSince1970)
        let outcome = try await self.folder.drain(MemoryStore([try Fixture.tuple(9), future]))
        let after = Int64(Date().timeIntervalSince1970)
        #expect(outcome.failure == nil && outcome.tupleCount == 2 && outcome.futureTupleCount == 1)
        var failures: [Int64] = []
        try self.folder.list.entries { failures.append($0.failedAtSeconds) }
        #expect(failures.contains(1_600_000_009) && failures.contains { (before...after).contains($0) })
    }

    @Test func `silence ends a drain from a service that stays open`() async throws {
        let tuples = try Fixture.tuples(100)
        let store = MemoryStore(tuples)
        let outcome = try await self.folder.drain(store, listener: Fixture.listener { $0.closesBehindList = false }) {
            $0.idleTimeout = .milliseconds(200)
        }
        #expect(outcome.failure == nil && outcome.ending?.reason == .silence && outcome.tupleCount == 100)
        #expect(store.acknowledgedCount == 1 && self.folder.files.isEmpty)
        try self.expectList(tuples)
    }

    @Test func `the deadline ends a slow drain, and what was received is kept`() async throws {
        let tuples = try Fixture.tuples(1000)
        let slow = Fault(at: .always, .slowWriting(TransferPace(byteCount: 7, interval: .milliseconds(1))))
        let store = MemoryStore(tuples, faults: [slow])
        // A fifth of the time for everything, and enough to connect on a busy machine.
        let outcome = try await self.folder.drain(store) { $0.readTimeout = .seconds(1) }
        #expect(outcome.failure == nil && outcome.ending?.reason == .deadline)
        #expect(outcome.tupleCount > 0 && outcome.tupleCount < 1000 && store.count == 1000)
        try self.expectList(tuples.prefix(Int(outcome.tupleCount)))
    }

    @Test(arguments: [1, 7]) func `small portions give the same list`(_ byteCount: Int) async throws {
        let tuples = try Fixture.tuples(60)
        let slow = Fault(at: .always, .slowWriting(TransferPace(byteCount: byteCount, interval: .zero)))
        let store = MemoryStore(tuples, faults: [slow])
        let outcome = try await self.folder.drain(store)
        #expect(outcome.failure == nil && outcome.tupleCount == 60)
        try self.expectList(tuples)
    }

    @Test func `an incomplete tuple is set aside, and all before it is on the list`() async throws {
        let tuples = try Fixture.tuples(50)
        var bytes = 0
        for tuple in tuples { bytes += 6 + tuple.token.byteCount }
        let store = MemoryStore(tuples, faults: [Fault(at: .always, .cutList(byteCount: bytes - 3))])
        let outcome = try await self.folder.drain(store)
        #expect(outcome.failure == nil && outcome.tupleCount == 49)
        #expect((outcome.ending?.partialByteCount ?? 0) > 0)
        let leftover = try #require(outcome.leftovers.first)
        #expect(leftover.kind == .partial && outcome.leftovers.count == 1)
        let last = tuples[49].token.bytes.dropLast(3)
        #expect(FileManager.default.contents(atPath: leftover.path)?.suffix(last.count) == Data(last))
        try self.expectList(tuples.prefix(49))
        #expect(store.count == 50)
        #expect("\(leftover)".contains(leftover.path))
    }

    @Test(arguments: [FaultReport.Ending.fin, .reset])
    func `a failed connection is an error that keeps what was received`(_ ending: FaultReport.Ending) async throws {
        let tuples = try Fixture.tuples(50)
        let cut = Fault(at: .always, .cutList(byteCount: 1000), report: FaultReport(ending: ending))
        let store = MemoryStore(tuples, faults: [cut])
        let outcome = try await self.folder.drain(store)
        guard case .unavailable = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(store.count == 50)
        try self.expectList(tuples.prefix(Int(outcome.tupleCount)))
    }

    @Test(arguments: [FaultReport.Ending.fin, .reset])
    func `without required close_notify, an end inside a tuple and a reset are still failures`(
        _ ending: FaultReport.Ending
    ) async throws {
        let cut = Fault(at: .always, .cutList(byteCount: 1000), report: FaultReport(ending: ending))
        let store = MemoryStore(try Fixture.tuples(50), faults: [cut])
        let outcome = try await self.folder.drain(store) { $0.requiresCloseNotify = false }
        #expect((outcome.failure == nil) == (ending == .fin), "\(outcome)")
        if ending == .fin { #expect(outcome.leftovers.map(\.kind) == [.partial] && outcome.ending?.reason == .closed) }
    }

    @Test(arguments: [true, false]) func `an end without close_notify before any byte is never an empty list`(
        _ isRequired: Bool
    ) async throws {
        let cut = Fault(at: .always, .cutList(byteCount: 0), report: FaultReport(ending: .fin))
        let store = MemoryStore(try Fixture.tuples(5), faults: [cut])
        let outcome = try await self.folder.drain(store) { $0.requiresCloseNotify = isRequired }
        #expect(outcome.ending?.reason == .refused && store.openedCount == 1)
        guard case .refused = outcome.failure else {
            Issue.record("\(outcome)")
            return
        }
    }

    @Test func `an endless service is stopped at the limit, and what was received is kept`() async throws {
        let outcome = try await self.folder.drain(EndlessStore(), listener: Fixture.listener()) {
            $0.byteCountMax = 100_000
        }
        #expect(outcome.failure == nil && outcome.ending?.reason == .limit, "\(outcome)")
        let byteCount = outcome.ending?.byteCount ?? 0
        #expect(byteCount >= 100_000 && byteCount < 100_000 + 65_536, "\(byteCount)")
        #expect(outcome.tupleCount == byteCount / 38 && outcome.leftovers.isEmpty && self.folder.files.isEmpty)
        #expect(try self.folder.tokens().count == Int(outcome.tupleCount))
    }

    @Test func `a service with an untrusted authority is not read`() async throws {
        let untrusted = try CertificateAuthority().issueServer()
        let store = MemoryStore(try Fixture.tuples(5))
        let outcome = try await self.folder.drain(
            store,
            listener: Fixture.listener { $0.identity = untrusted.identity }
        )
        guard case .notPermitted = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(store.openedCount == 0 && self.folder.files.isEmpty)
    }

    @Test func `a service with another name is not read`() async throws {
        let other = try Fixture.authority.get().issueServer(names: ["other.example"])
        let store = MemoryStore(try Fixture.tuples(5))
        let outcome = try await self.folder.drain(store, listener: Fixture.listener { $0.identity = other.identity })
        guard case .notPermitted(_, TLSError.wrongHost) = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(store.openedCount == 0)
    }

    @Test func `a provider of another app is refused`() async throws {
        let other = try Fixture.authority.get().issueClient(topic: "com.example.other")
        var tls = try Fixture.tls()
        tls.identity = other.identity
        let store = MemoryStore(try Fixture.tuples(5))
        let outcome = try await Listener(try Fixture.listener(), store: store).withRunning {
            [tls, folder] listener in
            try await folder.drain(port: try await listener.boundAddress.port, tls: tls)
        }
        #expect(outcome.tupleCount == 0 && store.openedCount == 0)
        guard case .refused(let endpoint) = outcome.failure else {
            Issue.record("\(outcome)")
            return
        }
        #expect("\(FeedbackError.refused(endpoint))".contains("refuses this certificate"))
        #expect(try self.folder.list.scopes().isEmpty && self.folder.files.isEmpty)
    }

    @Test(arguments: ["", String(repeating: "x", count: 256), "com.example\n.app"])
    func `an unusable topic is an error when the client is made`(_ topic: String) throws {
        let error = #expect(throws: FeedbackError.self) { try self.folder.client(port: 1) { $0.scope.topic = topic } }
        guard case .topicUnusable? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(self.folder.files.isEmpty)
    }

    @Test func `a port that refuses connections is unavailable`() async throws {
        let outcome = try await self.folder.drain(port: 3)
        guard case .unavailable = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
    }

    @Test func `if the closure throws an error, the segment remains and is repeated`() async throws {
        struct Full: Error {}
        let store = MemoryStore(try Fixture.tuples(10))
        let folder = self.folder
        try await Listener(try Fixture.listener(), store: store).withRunning { listener in
            let port = try await listener.boundAddress.port
            await #expect(throws: FeedbackError.notDelivered(underlying: Full())) {
                try await folder.client(port: port).drain { _ in throw Full() }
            }
            #expect(folder.files.count == 1)
            try await eventually("the service forgets what it has written") { store.count == 0 }
            let again = try await folder.drain(port: port)
            #expect(again.failure == nil && again.replayedTupleCount == 10 && folder.files.isEmpty)
        }
        #expect(try self.folder.tokens().count == 10)
    }

    @Test func `a second drain of the same topic reports the process of the first`() async throws {
        let lock = try self.folder.spool.lock(Fixture.scope)
        let outcome = try await self.folder.drain(port: 1)
        guard case .spool(.held(_, let holder)) = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(holder == getpid())
        withExtendedLifetime(lock) {}
    }

    @Test func `a second drain with the same certificate and another spool reports the process of the first`()
        async throws
    {
        let store = MemoryStore(try Fixture.tuples(10))
        let folder = self.folder
        try await Listener(try Fixture.listener(), store: store).withRunning { listener in
            let port = try await listener.boundAddress.port
            let fingerprint = try Fixture.provider.get().identity.certificate.fingerprint
            let endpoint = Endpoint(host: "LOCALHOST", port: port)
            var lock = try DrainLock.acquire(fingerprint, endpoint)
            #expect(lock != nil)
            for _ in 0..<3 {
                let outcome = try await folder.drain(port: port)
                guard case .held(_, let holder) = outcome.failure else {
                    Issue.record("\(String(describing: outcome.failure))")
                    return
                }
                #expect(holder == getpid() && store.openedCount == 0 && folder.files.isEmpty)
            }
            // Other drains are not affected.
            #expect(try DrainLock.acquire(fingerprint, Endpoint(host: "localhost", port: 2)) != nil)
            #expect(try DrainLock.acquire(fingerprint + "0", endpoint) != nil)
            lock = nil
            let outcome = try await folder.drain(port: port)
            #expect(outcome.failure == nil && outcome.tupleCount == 10)
        }
    }

    @Test func `invalid bytes are reported with their offset, and are kept`() async throws {
        let folder = self.folder
        let tls = TLSConfiguration.server(identity: try Fixture.service.get().identity)
        let first = try Fixture.tuple(40)
        try await ByteServer.withRunning(tls: tls, first.bytes + Array("HTTP/1.1 400".utf8)) { port in
            let outcome = try await folder.drain(port: port)
            let offset = UInt64(first.bytes.count)
            #expect(outcome.ending?.reason == .malformed(offset: offset, tokenByteCount: 0x2F31))
            #expect(outcome.tupleCount == 1 && outcome.leftovers.map(\.kind) == [.malformed])
            #expect("\(outcome.leftovers)".contains("byte \(offset)"))
        }
        try self.expectList([first])
        #expect(self.folder.files.map { ($0 as NSString).pathExtension } == ["malformed"])
    }
}
