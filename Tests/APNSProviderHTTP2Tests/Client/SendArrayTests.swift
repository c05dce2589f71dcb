// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import NIOCore
import Testing

/// Goal: the outcomes of an array of notifications are complete and in its order, however the client or the task ends.
@Suite(.timeLimit(.minutes(1))) struct SendArrayTests {
    private static func client(_ peer: ClientPeer, _ port: Int) throws -> PushClient {
        try PushClient(peer.configuration(port: port), logger: PushFixture.quiet)
    }

    @Test(arguments: ClientPeer.allCases)
    func `outcomes are in the order of the notifications`(peer: ClientPeer) async throws {
        try await peer.withService { service in
            let configuration = try peer.configuration(port: service.port)
            try await PushClient.withClient(configuration, logger: PushFixture.quiet) { client in
                var notifications = try (0..<300).map { try ClientPeer.notification($0) }
                notifications[7].payload.clear()
                let outcomes = await client.send(notifications)
                #expect(outcomes.count == 300 && outcomes[7] == .invalid(.payloadEmpty))
                #expect(outcomes.count { $0 == .accepted } == 299)
                #expect(await client.send([PushNotification]()) == [])
                #expect(await client.send(notifications.lazy.filter { $0.payload.readableBytes == 0 }).count == 1)
            }
            #expect(service.numbers().sorted() == (0..<300).filter { $0 != 7 })
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `when a client ends, what is without an outcome is unsent`(peer: ClientPeer) async throws {
        let client = try Self.client(peer, 1)
        let notifications = try (0..<3).map { try ClientPeer.notification($0) }
        async let outcomes = client.send(notifications)
        client.stop()
        #expect(await outcomes == Array(repeating: .unsent(.stopped), count: 3))
        #expect(await client.send(notifications) == Array(repeating: .unsent(.stopped), count: 3))
    }

    @Test(arguments: ClientPeer.allCases)
    func `in a cancelled task, nothing is sent`(peer: ClientPeer) async throws {
        let client = try Self.client(peer, 1)
        let notifications = try (0..<3).map { try ClientPeer.notification($0) }
        let sending = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await client.send(notifications)
        }
        #expect(await sending.value == Array(repeating: .unsent(.cancelled), count: 3))
    }

    @Test(arguments: ClientPeer.allCases)
    func `a cancellation withdraws what waits`(peer: ClientPeer) async throws {
        let client = try Self.client(peer, 1)
        let notifications = try (0..<3).map { try ClientPeer.notification($0) }
        let sending = Task { await client.send(notifications) }
        await Task.yield()
        sending.cancel()
        #expect(await sending.value == Array(repeating: .unsent(.cancelled), count: 3))
    }

    @Test(arguments: ClientPeer.allCases)
    func `after a cancellation, what was written is in doubt`(peer: ClientPeer) async throws {
        try await peer.withService(isSilent: true) { service in
            let configuration = try peer.configuration(port: service.port)
            try await PushClient.withClient(configuration, logger: PushFixture.quiet) { client in
                let notifications = try (0..<3).map { try ClientPeer.notification($0) }
                let sending = Task { await client.send(notifications) }
                try await service.wait(3)
                sending.cancel()
                #expect(await sending.value == Array(repeating: .indeterminate(.cancelled), count: 3))
                client.stop()
            }
        }
    }
}
