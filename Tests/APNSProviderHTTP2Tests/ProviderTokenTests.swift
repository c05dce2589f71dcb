// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSProviderHTTP2
@testable import APNSServer

@Suite("Provider tokens", .timeLimit(.minutes(1)))
struct ProviderTokenTests {
    private static let noon: Int64 = 1_750_000_000

    @Test func `a token is kept for 50 minutes`() {
        var schedule = ProviderTokenSchedule()
        #expect(schedule.step(at: Self.noon) == .renew(issuedAt: Self.noon))
        #expect(schedule.step(at: Self.noon + 2999) == .keep)
        #expect(schedule.step(at: Self.noon + 3000) == .renew(issuedAt: Self.noon + 3000))
        #expect(schedule.step(at: Self.noon + 3001) == .keep)
    }

    @Test func `a refused renewal restores the old token, and the next attempt waits`() {
        var schedule = ProviderTokenSchedule()
        _ = schedule.step(at: Self.noon)
        _ = schedule.step(at: Self.noon + 3000)
        #expect(schedule.renewalRefused(at: Self.noon + 3010) == Self.noon)
        #expect(schedule.step(at: Self.noon + 3500) == .keep)
        #expect(schedule.step(at: Self.noon + 3010 + 1200) == .renew(issuedAt: Self.noon + 4210))
    }

    @Test func `a token that was refused as too early is used when the old one has expired`() {
        var schedule = ProviderTokenSchedule()
        _ = schedule.step(at: Self.noon)
        _ = schedule.step(at: Self.noon + 3000)
        _ = schedule.renewalRefused(at: Self.noon + 3010)
        #expect(schedule.step(at: Self.noon + 3599) == .keep)
        #expect(schedule.step(at: Self.noon + 3600) == .useRefused)
        #expect(schedule.issuedAt == Self.noon + 3000)
        #expect(schedule.step(at: Self.noon + 3601) == .keep)
        #expect(schedule.step(at: Self.noon + 6000) == .renew(issuedAt: Self.noon + 6000))
    }

    @Test func `a token that was refused as too early is used when the service calls the old one expired`() {
        var schedule = ProviderTokenSchedule()
        _ = schedule.step(at: Self.noon)
        _ = schedule.step(at: Self.noon + 3000)
        _ = schedule.renewalRefused(at: Self.noon + 3010)
        #expect(schedule.expired(issuedAt: Self.noon, at: Self.noon + 3100) == true)
        #expect(schedule.step(at: Self.noon + 3100) == .useRefused)
        #expect(schedule.expired(issuedAt: Self.noon + 3000, at: Self.noon + 3101) == false)
    }

    @Test func `a refused renewal without a valid old token has no token`() {
        var schedule = ProviderTokenSchedule()
        _ = schedule.step(at: Self.noon)
        #expect(schedule.renewalRefused(at: Self.noon + 1) == nil)
    }

    @Test func `a token that expired by the service's clock is renewed once in 20 minutes`() {
        var schedule = ProviderTokenSchedule()
        _ = schedule.step(at: Self.noon)
        #expect(schedule.expired(issuedAt: Self.noon, at: Self.noon + 1) == false)
        #expect(schedule.step(at: Self.noon + 1) == .keep)
        #expect(schedule.expired(issuedAt: Self.noon, at: Self.noon + 1300) == true)
        #expect(schedule.step(at: Self.noon + 1300) == .renew(issuedAt: Self.noon + 1300))
        #expect(schedule.expired(issuedAt: Self.noon, at: Self.noon + 1301) == true)
        #expect(schedule.step(at: Self.noon + 1301) == .keep)
    }

    @Test func `a clock that jumps back does not renew continuously`() {
        var schedule = ProviderTokenSchedule()
        _ = schedule.step(at: Self.noon)
        #expect(schedule.step(at: Self.noon - 100_000) == .renew(issuedAt: Self.noon - 100_000))
        #expect(schedule.step(at: Self.noon) == .renew(issuedAt: Self.noon))
        #expect(schedule.step(at: Self.noon - 60) == .keep)
    }

    @Test func `hosts that start at different times date their tokens alike`() {
        for start in stride(from: Self.noon, to: Self.noon + 3000, by: 7) {
            var (schedule, other) = (ProviderTokenSchedule(phase: 700), ProviderTokenSchedule(phase: 700))
            let first = schedule.step(at: Self.noon)
            #expect(first == .renew(issuedAt: 1_749_999_700))
            for time in stride(from: start, to: start + 20_000, by: 11) { _ = other.step(at: time) }
            for time in stride(from: Self.noon + 1, to: start + 20_000, by: 11) { _ = schedule.step(at: time) }
            (_, _) = (schedule.step(at: start + 20_000), other.step(at: start + 20_000))
            #expect(schedule.issuedAt == other.issuedAt, "start \(start)")
        }
    }

    @Test(arguments: 0..<TestEffort.count(20, long: 500) as Range<UInt64>)
    func `no token is too old, and none is dated too soon after another one`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var schedule = ProviderTokenSchedule(phase: .random(in: 0..<3000, using: &random))
        var (time, dates) = (Self.noon, [Int64]())
        for _ in 0..<5000 {
            time += .random(in: 0..<100, using: &random)
            if Int.random(in: 0..<300, using: &random) == 0, let issuedAt = schedule.issuedAt {
                _ = schedule.expired(issuedAt: issuedAt, at: time)
            }
            if case .renew(let issuedAt) = schedule.step(at: time) { dates.append(issuedAt) }
            let age = time - (schedule.issuedAt ?? 0)
            #expect((0..<ProviderTokenSchedule.ageMax).contains(age), "seed \(seed)")
        }
        for (date, next) in zip(dates, dates.dropFirst()) {
            #expect(next - date >= ProviderTokenSchedule.renewalIntervalMin, "seed \(seed)")
        }
    }

    private func key() throws -> ProviderTokenKey { try PushFixture.key() }

    private func validator(_ change: (inout HTTP2ListenerConfiguration) -> Void = { _ in }) throws
        -> ProviderTokenValidator
    {
        var configuration = try PushFixture.serverConfiguration()
        change(&configuration)
        return ProviderTokenValidator(configuration)
    }

    @Test func `a token has three parts, and its signature is two raw numbers`() throws {
        let token = try self.key().token(issuedAt: Self.noon)
        let parts = token.split(separator: ".").map { Base64.bytes(addressText: $0) }
        #expect(parts.count == 3)
        #expect(parts[0].map { String(decoding: $0, as: UTF8.self) } == #"{"alg":"ES256","kid":"ABC123DEFG"}"#)
        #expect(parts[1].map { String(decoding: $0, as: UTF8.self) } == #"{"iss":"TEAM123456","iat":1750000000}"#)
        #expect(parts[2]?.count == 64)
    }

    @Test func `the validator accepts valid tokens and reports what is wrong with others`() throws {
        let validator = try self.validator()
        let good = "bearer " + (try self.key().token(issuedAt: Self.noon))
        var memory = ProviderTokenValidator.Memory()
        #expect(validator.problem(nil, &memory, now: Self.noon) == .missingProviderToken)
        #expect(validator.problem("basic abc", &memory, now: Self.noon) == .missingProviderToken)
        #expect(validator.problem("bearer abc", &memory, now: Self.noon) == .invalidProviderToken)
        #expect(validator.problem(good + "A", &memory, now: Self.noon) == .invalidProviderToken)
        #expect(validator.problem(good, &memory, now: Self.noon - 61) == .invalidProviderToken)
        #expect(validator.problem(good, &memory, now: Self.noon + 3601) == .expiredProviderToken)
        #expect(memory == ProviderTokenValidator.Memory())
        #expect(validator.problem(good, &memory, now: Self.noon) == nil)
        #expect(validator.problem(good, &memory, now: Self.noon + 3600) == nil)
        #expect(validator.problem(good, &memory, now: Self.noon + 3601) == .expiredProviderToken)
    }

    @Test(arguments: [
        (Int64.min, PushReason.expiredProviderToken), (.min + 3600, .expiredProviderToken),
        (0, .expiredProviderToken), (.max, .invalidProviderToken), (.max - 60, .invalidProviderToken),
    ])
    func `extreme times are validated like others`(_ time: Int64, _ reason: PushReason) throws {
        let validator = try self.validator { $0.tokenRenewalIntervalMin = .seconds(1200) }
        var memory = ProviderTokenValidator.Memory()
        let token = "bearer " + (try self.key().token(issuedAt: time))
        #expect(validator.problem(token, &memory, now: Self.noon) == reason)
        #expect(memory == ProviderTokenValidator.Memory())
    }

    @Test func `a server answers a token with the lowest possible time, and continues`() async throws {
        let request = try PushFixture.request(topic: PushFixture.topic)
        var configuration = try PushFixture.serverConfiguration()
        configuration.clock = { Timestamp(secondsSince1970: Self.noon) }
        let server = configuration
        let outcomes = try await Listener(
            server,
            service: ScriptedService(),
            logger: PushFixture.quiet
        ).withRunning { server in
            let port = try await server.boundAddress.port
            var outcomes: [DeliveryOutcome] = []
            for time in [Int64.min, Self.noon] {
                var configuration = try PushFixture.tokenConfiguration(port: port)
                configuration.providerToken = try PushFixture.tokens { time }
                outcomes.append(
                    try await RequestClient.withClient(configuration, logger: PushFixture.quiet) {
                        await $0.send(request)
                    }
                )
            }
            return outcomes
        }
        #expect(outcomes == [.rejected(.http2(PushRejection(status: 403, reason: .expiredProviderToken))), .accepted])
    }

    @Test func `the validator refuses signatures of other keys, other teams and unknown keys`() throws {
        let validator = try self.validator()
        func problem(_ signer: ES256PrivateKey, key: String, team: String) throws -> PushReason? {
            var memory = ProviderTokenValidator.Memory()
            let made = try ProviderTokenKey(key: signer, keyID: key, teamID: team)
            return validator.problem("bearer " + (try made.token(issuedAt: Self.noon)), &memory, now: Self.noon)
        }
        let (signer, other) = (try PushFixture.signer.get(), try PushFixture.otherSigner.get())
        let (key, team) = (PushFixture.keyID, PushFixture.teamID)
        #expect(try problem(signer, key: key, team: team) == nil)
        #expect(try problem(other, key: key, team: team) == .invalidProviderToken)
        #expect(try problem(signer, key: key, team: "OTHER12345") == .invalidProviderToken)
        #expect(try problem(signer, key: "UNKNOWN123", team: team) == .invalidProviderToken)
    }

    @Test func `a connection permits only related keys and one team`() throws {
        let other = try PushFixture.otherSigner.get()
        let validator = try self.validator { configuration in
            guard let key = try? other.publicKey else { return }
            configuration.tokenKeys["SECONDKEY1"] = .init(
                key: key,
                teamID: PushFixture.teamID,
                topics: ["com.example.other"]
            )
            configuration.tokenKeys["THIRDKEY12"] = .init(key: key, teamID: "OTHER12345")
        }
        var memory = ProviderTokenValidator.Memory()
        #expect(
            validator.problem("bearer " + (try self.key().token(issuedAt: Self.noon)), &memory, now: Self.noon) == nil
        )
        let second = try ProviderTokenKey(
            key: other,
            keyID: "SECONDKEY1",
            teamID: PushFixture.teamID
        )
        let third = try ProviderTokenKey(key: other, keyID: "THIRDKEY12", teamID: "OTHER12345")
        let tokens = try [second, third].map { "bearer " + (try $0.token(issuedAt: Self.noon)) }
        #expect(validator.problem(tokens[0], &memory, now: Self.noon) == .unrelatedKeyIdInToken)
        #expect(validator.problem(tokens[1], &memory, now: Self.noon) == .invalidProviderToken)
    }

    @Test func `identifiers of another form are refused`() throws {
        let signer = try PushFixture.signer.get()
        for (key, team) in [("", "TEAM123456"), ("ABC123DEFG", "TEAM12345"), ("ABC123DEF\"", "TEAM123456")] {
            #expect(throws: ProviderError.self) {
                try ProviderTokenKey(key: signer, keyID: key, teamID: team)
            }
        }
    }

    // MARK: Client and server

    /// Runs a client and a server with one clock, which begins at noon.
    private func withClock<Value: Sendable>(
        renewalIntervalMin: Duration? = nil,
        _ body: @escaping @Sendable (RequestClient, NIOLockedValueBox<Int64>) async throws -> Value
    ) async throws -> Value {
        let time = NIOLockedValueBox(Self.noon)
        return try await PushFixture.withPair(
            ScriptedService(),
            server: {
                $0.clock = { Timestamp(secondsSince1970: time.withLockedValue(\.self)) }
                $0.tokenRenewalIntervalMin = renewalIntervalMin ?? $0.tokenRenewalIntervalMin
            },
            usesToken: true,
            client: { $0.providerToken = try PushFixture.tokens { time.withLockedValue(\.self) } },
            { try await body($0, time) }
        )
    }

    @Test func `a client authenticates by tokens, one stream first`() async throws {
        let service = ScriptedService()
        let request = try PushFixture.request(topic: PushFixture.topic)
        let outcomes = try await PushFixture.withPair(
            service,
            server: { $0.limitsStreamsUntilSuccess = true },
            usesToken: true
        ) { client in
            await withTaskGroup(of: DeliveryOutcome.self) { group in
                for _ in 0..<20 { group.addTask { await client.send(request) } }
                return await group.reduce(into: [DeliveryOutcome]()) { $0.append($1) }
            }
        }
        #expect(outcomes == Array(repeating: .accepted, count: 20))
    }

    @Test func `a client with tokens but without a topic gets the error`() async throws {
        let request = try PushFixture.request()
        let outcome = try await PushFixture.withPair(ScriptedService(), usesToken: true) { await $0.send(request) }
        #expect(outcome == .rejected(.http2(PushRejection(status: 400, reason: .missingTopic))))
    }

    @Test func `a token that expires is renewed in time`() async throws {
        let request = try PushFixture.request(topic: PushFixture.topic)
        let outcomes = try await self.withClock { client, time in
            var outcomes: [DeliveryOutcome] = []
            for _ in 0..<5 {
                outcomes.append(await client.send(request))
                time.withLockedValue { $0 += 3500 }
            }
            return outcomes
        }
        #expect(outcomes == Array(repeating: .accepted, count: 5))
    }

    @Test func `after a refused renewal the old token is used`() async throws {
        let request = try PushFixture.request(topic: PushFixture.topic)
        // Longer than the age at which the client renews, so that its first renewal is refused.
        let outcomes = try await self.withClock(renewalIntervalMin: .seconds(3300)) { client, time in
            var reports = [await client.report(of: request)]
            time.withLockedValue { $0 += 3100 }
            reports.append(await client.report(of: request))
            time.withLockedValue { $0 += 100 }
            reports.append(await client.report(of: request))
            return reports
        }
        #expect(outcomes.map(\.outcome) == Array(repeating: .accepted, count: 3))
        #expect(outcomes.map(\.attempts) == [1, 2, 1])
    }

    @Test func `a renewal that is refused until the old token has expired costs no request`() async throws {
        let request = try PushFixture.request(topic: PushFixture.topic)
        let outcomes = try await self.withClock(renewalIntervalMin: .seconds(3300)) { client, time in
            var outcomes: [DeliveryOutcome] = []
            for seconds in [0, 3050, 3500, 3599, 3605, 3700, 4100, 4300, 7000] as [Int64] {
                time.withLockedValue { $0 = Self.noon + seconds }
                outcomes.append(await client.send(request))
            }
            return outcomes
        }
        #expect(outcomes == Array(repeating: .accepted, count: 9))
    }

    @Test func `clients that share their tokens do not renew them twice`() async throws {
        let tokens = try PushFixture.tokens { Self.noon }
        let request = try PushFixture.request(topic: PushFixture.topic)
        var configuration = try PushFixture.serverConfiguration()
        configuration.clock = { Timestamp(secondsSince1970: Self.noon + 1) }
        configuration.tokenRenewalIntervalMin = .seconds(1200)
        let server = configuration
        try await Listener(server, service: ScriptedService(), logger: PushFixture.quiet).withRunning { server in
            let port = try await server.boundAddress.port
            for _ in 0..<3 {
                var configuration = try PushFixture.tokenConfiguration(port: port)
                configuration.providerToken = tokens
                let outcome = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) {
                    await $0.send(request)
                }
                #expect(outcome == .accepted)
            }
        }
    }

    @Test func `a token of another key is rejected`() async throws {
        let other = try ProviderTokenKey(
            key: try PushFixture.otherSigner.get(),
            keyID: PushFixture.keyID,
            teamID: PushFixture.teamID
        )
        let request = try PushFixture.request(topic: PushFixture.topic)
        let outcome = try await PushFixture.withPair(
            ScriptedService(),
            usesToken: true,
            client: { $0.providerToken = ProviderTokenSource(key: other) },
            { await $0.send(request) }
        )
        #expect(outcome == .rejected(.http2(PushRejection(status: 403, reason: .invalidProviderToken))))
    }
}

extension ProviderTokenValidator {
    fileprivate func problem(_ authorization: String?, _ memory: inout Memory, now: Int64) -> PushReason? {
        self.validate(authorization, &memory, now: now).refusal?.reason
    }
}
