// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GatewayService
import OpenSSLTLS
import Testing

/// Goal: what a provider sends after a trial shows what it does about errors, and which settings suit it.
@Suite struct ProviderHabitsTests {
    /// A connection each second, which sends these contents, with its trial.
    private func connections(_ all: [(ProviderTrial, [Int])]) -> [ObservedConnection] {
        all.enumerated().map { number, each in
            var connection = ObservedConnection(number: UInt64(number + 1))
            connection.trial = each.0
            connection.tlsVersion = .tls1_2
            connection.effectAt = .seconds(number) + .milliseconds(500)
            connection.messages = each.1.enumerated().map { place, content in
                .init(content: content, identifier: UInt32(place), at: .seconds(number))
            }
            return connection
        }
    }

    private func habits(_ all: [(ProviderTrial, [Int])], feedbackCount: Int = 0) -> ProviderHabits {
        ProviderHabits(self.connections(all), feedbackCount: feedbackCount)
    }

    @Test(arguments: [
        ([2, 3, 4], ProviderHabits.Reaction.rest), ([1, 2, 3], .all), ([9], .nothing), ([1, 7], .first),
        ([2, 8], .part),
        ([], .unknown),
    ])
    func `a reaction is known by what comes again`(next: [Int], reaction: ProviderHabits.Reaction) throws {
        let response = try #require(self.habits([(.rejection, [1, 2, 3]), (.acceptance, next)]).responses.first)
        #expect(response.reaction == reaction && response.followingCount == 2)
        #expect(response.delay == (next.isEmpty ? nil : .milliseconds(500)))
    }

    @Test func `a provider that sends again what followed wants error responses`() throws {
        let habits = self.habits([(.acceptance, [1]), (.rejection, [2, 3]), (.acceptance, [3]), (.reset, [4, 5])])
        #expect(try #require(habits.ignoresRejections).isSet == false)
        #expect(habits.settings(provider: "shop").contains { $0.hasPrefix("    rejections: report") })
    }

    @Test func `one that loses what followed, or repeats the rejected one, must not see error responses`() throws {
        for next in [[7, 8], [2, 3]] {
            let habits = self.habits([(.rejection, [2, 3]), (.acceptance, next)], feedbackCount: 1)
            #expect(try #require(habits.ignoresRejections).isSet)
            let lines = habits.settings(provider: "shop")
            #expect(lines[2].hasPrefix("    rejections: ignore") && lines[3].hasPrefix("    rejectedToFeedback: true"))
        }
    }

    @Test func `one that sends one notification on each connection loses nothing`() throws {
        let habits = self.habits([(.rejection, [1]), (.acceptance, [2])])
        #expect(try #require(habits.ignoresRejections).isSet == false)
        #expect(self.habits([(.acceptance, [1]), (.rejection, [2])]).ignoresRejections == nil)
    }

    @Test func `an old version of TLS, long payloads and a foreign certificate have their settings`() {
        var connections = self.connections([(.acceptance, [1, 2])])
        connections[0].tlsVersion = .tls1_0
        connections[0].messages[0].payloadByteCount = 3000
        let lines = ProviderHabits(connections, feedbackCount: 0).settings(provider: "shop")
        #expect(lines.contains("  tlsMinimum: \"1.0\"") && lines.contains { $0.hasPrefix("    payloadLimit: 4096") })
    }

    @Test func `identifiers are described by their order`() {
        func text(_ runs: [[UInt32?]]) -> String? {
            var connections = self.connections(runs.map { (.acceptance, Array(0..<$0.count)) })
            for (place, run) in runs.enumerated() {
                for index in run.indices { connections[place].messages[index].identifier = run[index] }
            }
            return ProviderHabits(connections, feedbackCount: 0).lines.first { $0.name == "identifiers" }?.value
        }
        #expect(text([[0, 1], [0]]) == "from 0 on each connection")
        #expect(text([[1, 2], [1, 2]]) == "from 1 on each connection")
        #expect(text([[5, 6], [7]]) == "consecutive, from 5, across connections")
        #expect(
            text([[0, 0], [0]]) == "always 0" && text([[nil, nil]]) == "none" && text([[7, 3]]) == "not consecutive"
        )
    }

    @Test func `without a connection, the report says so`() {
        let habits = ProviderHabits([], feedbackCount: 0)
        #expect(habits.lines.map(\.value) == ["none completed a TLS handshake"])
        #expect(habits.settings(provider: "shop").isEmpty)
    }
}
