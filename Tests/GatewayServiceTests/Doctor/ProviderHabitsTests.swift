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
            if each.0 != .acceptance { connection.effectAt = .seconds(number) + .milliseconds(500) }
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

    @Test func `a provider that repeats accepted notifications shows nothing about errors`() throws {
        // A script with a fixed text, and a server whose connections stay open.
        for (isKept, contents) in [(false, [[1, 2], [1, 2], [1, 2]]), (true, [[1, 1, 1], [1, 1], [1]])] {
            var connections = self.connections([
                (.acceptance, contents[0]), (.rejection, contents[1]), (.acceptance, contents[2]),
            ])
            connections[0].closedAt = .milliseconds(100)
            if isKept { connections[0].effectAt = .milliseconds(50) }
            let habits = ProviderHabits(connections, feedbackCount: 0)
            let ignores = try #require(habits.ignoresRejections)
            #expect(habits.repeatsAccepted && ignores.isSet)
            #expect(habits.lines.contains { $0.name == "after errors" && $0.value.hasPrefix("not known") })
            #expect(!habits.lines.contains { $0.name == "after rejection" })
        }
        #expect(!self.habits([(.acceptance, [1, 2]), (.rejection, [3, 4]), (.acceptance, [5])]).repeatsAccepted)
    }

    @Test func `one whose notifications are all alike is not asked for others`() throws {
        var connections = self.connections([(.acceptance, [1, 1]), (.rejection, [1, 1]), (.acceptance, [1])])
        for index in connections.indices {
            connections[index].messages = connections[index].messages.map {
                .init(content: $0.content, identifier: nil, at: $0.at)
            }
        }
        connections[0].closedAt = .milliseconds(100)
        let habits = ProviderHabits(connections, feedbackCount: 0)
        let ignores = try #require(habits.ignoresRejections)
        #expect(ignores.isSet && ignores.reason == "command 0 has no identifiers, so an error response names none")
        let after = habits.lines.first { $0.name == "after errors" }?.value
        #expect(after == "not known: it repeats accepted notifications, too")
    }

    @Test func `what a trial did not reach is not lost`() throws {
        var connections = self.connections([(.reset, [1, 2]), (.rejection, [3, 4]), (.acceptance, [5])])
        for index in 0..<2 { connections[index].closedAt = .seconds(index) + .milliseconds(20) }
        let habits = ProviderHabits(connections, feedbackCount: 0)
        #expect(habits.responses.map(\.isMissed) == [true, true])
        let lines = Dictionary(uniqueKeysWithValues: habits.lines.map { ($0.name, $0.value) })
        #expect(lines["after reset"] == "it had closed before; it sent nothing again")
        let lost = "it had closed before; it sent nothing again, so what followed (1) is lost"
        #expect(lines["after rejection"] == lost)
        #expect(lines["errors"] == "not known: it closed each connection before one came")
        // One that never waits gains nothing from error responses.
        connections[1].messages.removeLast()
        #expect(try #require(ProviderHabits(connections, feedbackCount: 0).ignoresRejections).isSet)
    }

    @Test func `a resend on a connection that was open before is recognized`() {
        var connections = self.connections([(.acceptance, [8]), (.rejection, [1, 2, 3])])
        for content in [2, 3] {
            connections[0].messages.append(.init(content: content, identifier: 1, at: .seconds(2)))
        }
        let responses = ProviderHabits(connections, feedbackCount: 0).responses
        #expect(responses.map(\.reaction) == [.rest] && responses.map(\.connectionCount) == [1])
    }

    @Test func `a resend that a later trial causes does not count as another connection`() {
        let habits = self.habits([(.rejection, [1, 2, 3]), (.shutdown, [2, 3]), (.acceptance, [3])])
        #expect(habits.responses.map(\.connectionCount) == [1, 1])
        #expect(habits.responses.map(\.reaction) == [.rest, .rest])
    }

    @Test func `a provider that closes behind an error response reads it`() {
        func text(after milliseconds: Int) -> String? {
            var connections = self.connections([(.rejection, [1, 2]), (.acceptance, [3])])
            connections[0].closedAt = .milliseconds(500 + milliseconds)
            return ProviderHabits(connections, feedbackCount: 0).lines.first { $0.name == "errors" }?.value
        }
        #expect(text(after: 100)?.hasPrefix("read, it seems") == true)
        #expect(text(after: 3000)?.hasPrefix("not read, it seems") == true)
    }

    @Test func `what would be sent again with another expiry is not asked for`() throws {
        for (expiry, text) in [(2_000_000_000, "none, a time"), (10, "none, a time before 2001")] {
            var connections = self.connections([(.rejection, [1, 2]), (.acceptance, [2])])
            connections[1].messages[0].expiry = UInt32(expiry)
            let habits = ProviderHabits(connections, feedbackCount: 0)
            #expect(habits.lines.contains { $0.name == "expiry" && $0.value == text })
            #expect(try #require(habits.ignoresRejections).isSet)
        }
    }

    @Test func `a provider that sends again only a part loses the rest`() throws {
        let habits = self.habits([(.rejection, [1, 2, 3, 4]), (.acceptance, [3, 8])])
        let lost = "it sent again a part of what followed, within a second, so the rest (2) is lost"
        #expect(habits.lines.contains { $0.name == "after rejection" && $0.value == lost })
        #expect(try #require(habits.ignoresRejections).isSet)
    }

    @Test func `what follows a silence counts from the end of the connection`() throws {
        var connections = self.connections([(.silence, [1]), (.acceptance, [2])])
        connections[0].closedAt = .milliseconds(900)
        let response = try #require(ProviderHabits(connections, feedbackCount: 0).responses.first)
        #expect(response.delay == .milliseconds(100))
    }

    @Test func `payloads that are not JSON are reported`() {
        var connections = self.connections([(.rejection, [1, 2]), (.acceptance, [3])])
        connections[0].messages[1].payloadProblem = .objectMissing
        let some = ProviderHabits(connections, feedbackCount: 0)
        #expect(some.lines.contains { $0.value == "the service would reject 1 of 3: expected an object" })
        #expect(some.problem == nil)
        for connection in connections.indices {
            for message in connections[connection].messages.indices {
                connections[connection].messages[message].payloadProblem = .objectMissing
            }
        }
        let problem = ProviderHabits(connections, feedbackCount: 0).problem
        #expect(problem?.hasPrefix("None of its payloads is valid") == true)
    }

    @Test func `lost notifications are counted together`() {
        let habits = self.habits([(.reset, [1, 2]), (.reset, [3, 4, 5]), (.acceptance, [6])])
        let lost = "2 times: it sent nothing again, so what followed (1 to 2 each) is lost"
        #expect(habits.lines.contains { $0.name == "after reset" && $0.value == lost })
    }

    @Test func `the report says why a provider cannot work, and what was not seen`() {
        let failed = ProviderHabits([], feedbackCount: 0, handshakeFailures: ["unknown_ca", "unknown_ca"])
        #expect(failed.problem == "It cannot connect: unknown_ca.")
        #expect(failed.lines.contains { $0.name == "failed" && $0.value == "2 times: unknown_ca" })
        #expect(ProviderHabits([], feedbackCount: 0).problem?.hasPrefix("Nothing connected.") == true)
        var silent = ObservedConnection(number: 1)
        #expect(ProviderHabits([silent], feedbackCount: 0).problem?.hasPrefix("It sent no notification.") == true)
        silent.invalid = ["payload too long"]
        #expect(ProviderHabits([silent], feedbackCount: 0).problem?.contains("payload too long") == true)
        #expect(self.habits([(.acceptance, [1])]).problem?.contains("after a rejection was not seen") == true)
        #expect(self.habits([(.rejection, [1]), (.acceptance, [2])]).problem == nil)
        var kept = self.connections([(.acceptance, [1, 2])])
        kept[0].effectAt = .seconds(3)
        let problem = ProviderHabits(kept, feedbackCount: 0).problem
        #expect(problem?.hasPrefix("It did not connect again after its connection was closed.") == true)
    }

    @Test func `the name that a provider requests is reported`() {
        var connections = self.connections([(.acceptance, [1]), (.rejection, [2])])
        connections[0].serverName = "gateway.push.apple.com"
        let lines = ProviderHabits(connections, feedbackCount: 0).lines
        #expect(lines.contains { $0.name == "SNI" && $0.value == "gateway.push.apple.com, none" })
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
        #expect(text([[1, 2]]) == "consecutive, from 1")
        #expect(text([[1, 2], [1, 2], [2, 3]]) == "from 1 on 2 of 3 connections")
        #expect(text([[9], [4], [7]]) == "not consecutive across connections")
        #expect(text([[5, 6], [7]]) == "consecutive, from 5, across connections")
        #expect(text([[0, 0], [0]]) == "always 0, so an error response names none of several")
        #expect(text([[nil, nil]]) == "none" && text([[7, 3]]) == "not consecutive")
    }

    @Test func `without a connection, the report says so`() {
        let habits = ProviderHabits([], feedbackCount: 0)
        #expect(habits.lines.map(\.value) == ["none completed a TLS handshake"])
        #expect(habits.settings(provider: "shop").isEmpty)
    }
}
