// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSSession
import APNSWire
import Foundation
import Logging
import TestSupport
import Testing
import TokenStore

/// Goal: the store that gateways share keeps what the store of one gateway keeps, whichever of them is asked.
@Suite(
    .enabled(if: QueueScene.isPossible, "There is no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(3))
) struct SharedStoreWalkTests {
    private static let list = TokenScope(topic: "com.example.app", environment: .production)

    /// A store of one gateway, and two that share a database.
    private struct Stores {
        let single: SQLiteGatewayStore
        let shared: [PostgreSQLGatewayStore]

        init(_ folder: String, _ address: String) throws {
            let logger = Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }
            self.single = try SQLiteGatewayStore(path: folder + "/single.sqlite", logger: logger)
            self.shared = try (1...2).map { number in
                let local = try SQLiteGatewayStore(path: folder + "/\(number).sqlite", logger: logger)
                return PostgreSQLGatewayStore(address, local: local, logger: logger)
            }
        }

        func expect(_ resends: [ExpectedResend], _ index: Int) async {
            for store in [self.single, self.shared[index]] as [any ResendStore] {
                await withCheckedContinuation { done in
                    store.insert(resends, of: "shop", for: .seconds(600)) { isKept in
                        #expect(isKept)
                        done.resume()
                    }
                }
            }
        }

        func claim(_ resend: ExpectedResend, _ index: Int) async -> ResendClaim {
            await withCheckedContinuation { done in self.single.remove(resend, of: "shop") { done.resume() } }
            return await withCheckedContinuation { done in
                self.shared[index].claim(resend, of: "shop") { done.resume(returning: $0) }
            }
        }

        func resends(_ index: Int) async -> [ExpectedResend]? {
            await withCheckedContinuation { done in
                self.shared[index].load(of: "shop") { done.resume(returning: $0) }
            }
        }

        func record(_ tuple: FeedbackTuple, _ index: Int) async {
            for store in [self.single, self.shared[index]] as [any FeedbackListStore] {
                await withCheckedContinuation { done in
                    store.record(tuple, in: SharedStoreWalkTests.list) { done.resume() }
                }
            }
            // Another gateway reads it when it has been moved.
            await self.shared[index].flush()
        }

        /// Both lists, as a provider reads them, and acknowledged if it has read them whole.
        func feedback(_ index: Int, isRead: Bool) async -> (single: FeedbackPage.Bucket, shared: FeedbackPage.Bucket) {
            let isOpen = await withCheckedContinuation { done in
                self.shared[index].open(SharedStoreWalkTests.list) { done.resume(returning: $0) }
            }
            #expect(isOpen)
            let lists = ([self.single, self.shared[index]] as [any FeedbackListStore]).map { store in
                let page = store.page(of: SharedStoreWalkTests.list, from: 0, countMin: 10_000)
                if isRead { store.acknowledge(page.buckets, in: SharedStoreWalkTests.list) }
                return page.buckets.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: max) }
            }
            await self.shared[index].flush()
            return (lists[0], lists[1])
        }
    }

    private static func resend(_ number: Int, response: Int64, index: Int64) throws -> ExpectedResend {
        func key(_ byte: Int) throws -> ResendKey {
            try #require(ResendKey(bytes: [UInt8](repeating: UInt8(byte), count: ResendKey.byteCount)))
        }
        return ExpectedResend(
            key: try key(number),
            place: ExpectedResend.Place(response: response, index: index),
            lifetime: number % 3 == 0
                ? nil : ExpectedResend.Lifetime(content: try key(number + 100), milliseconds: -Int64(number))
        )
    }

    private static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: [UInt8](repeating: UInt8(number), count: 32))
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `random changes lead to the same resends and lists`(seed: UInt64) async throws {
        let folder = try TemporaryFolder()
        let server = try await PostgreSQLServer(in: folder.path)
        // Once through a pooler in transaction mode.
        let pooler = seed == 3 && PgBouncer.isInstalled ? try await PgBouncer(in: folder.path, for: server) : nil
        do { try await self.walk(folder.path, pooler?.address ?? server.address(user: "tests"), seed) } catch {
            await pooler?.stop()
            await server.stop()
            throw error
        }
        await pooler?.stop()
        await server.stop()
    }

    @Test func `of gateways that claim the same resends at the same time, one gets each, also if connections are lost`()
        async throws
    {
        let folder = try TemporaryFolder()
        let server = try await PostgreSQLServer(in: folder.path)
        do {
            let stores = try Stores(folder.path, server.address(user: "tests"))
            // Each key stands for two resends.
            let resends = try (0..<200).map { try Self.resend($0 / 2, response: 1, index: Int64($0)) }
            await stores.expect(resends, 0)
            let claims = try await withThrowingTaskGroup(of: ResendClaim?.self) { group in
                for store in stores.shared {
                    for resend in resends.shuffled() {
                        group.addTask {
                            await withCheckedContinuation { done in
                                store.claim(resend, of: "shop") { done.resume(returning: $0) }
                            }
                        }
                    }
                }
                group.addTask {
                    let others = "pid <> pg_backend_pid() AND application_name = 'apns-legacy'"
                    for _ in 1...3 {
                        try await server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \(others);")
                    }
                    return nil
                }
                var counts: [ResendClaim: Int] = [:]
                for try await claim in group { if let claim { counts[claim, default: 0] += 1 } }
                return counts
            }
            #expect(claims == [.claimed: 200, .absent: 200])
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    private func walk(_ folder: String, _ address: String, _ seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let stores = try Stores(folder, address)
        var known: [ExpectedResend] = []
        for step in 1...TestEffort.count(150, long: 2000) {
            let index = Int.random(in: 0...1, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0, 1:
                let resends = try (0..<Int.random(in: 1...5, using: &random)).map { place in
                    let number = Int.random(in: 1...8, using: &random)
                    return try Self.resend(number, response: Int64(step), index: Int64(place))
                }
                known += resends
                await stores.expect(resends, index)
            case 2, 3, 4:
                guard let resend = known.randomElement(using: &random) else { continue }
                let before = await stores.resends(1 - index) ?? []
                let claim = await stores.claim(resend, index)
                // Each is claimed once, whichever gateway has it in memory.
                let isThere = before.contains { $0.key == resend.key }
                #expect(claim == (isThere ? .claimed : .absent), "seed \(seed), step \(step)")
            case 5, 6:
                let time = UInt32.random(in: 1000...1010, using: &random)
                let token = try Self.token(Int.random(in: 1...20, using: &random))
                await stores.record(FeedbackTuple(token: token, failedAt: time), index)
            default:
                let (single, shared) = await stores.feedback(index, isRead: Bool.random(using: &random))
                #expect(single == shared, "seed \(seed), step \(step)")
            }
            let single = stores.single.resends(of: "shop", for: .seconds(600))
            let shared = await stores.resends(1 - index)
            #expect(Set(single) == Set(shared ?? []) && single.count == shared?.count, "seed \(seed), step \(step)")
        }
    }
}
#endif
