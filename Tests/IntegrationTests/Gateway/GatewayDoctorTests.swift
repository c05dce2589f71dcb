// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import GatewayService
import Logging
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the doctor recognizes a provider that reads error responses, and one that never does, and delivers nothing.
@Suite(.timeLimit(.minutes(2))) struct GatewayDoctorTests {
    private static func configuration(_ folder: GatewayProgram.Folder) throws -> ResolvedConfiguration {
        try folder.configure(upstreamPort: 1)
        return try ResolvedConfiguration(
            contentsOf: folder.path("gateway.yaml"),
            environment: [:],
            now: Timestamp.now.secondsSince1970
        )
    }

    @Test(arguments: [true, false]) func `the settings suit the provider`(reads: Bool) async throws {
        let folder = try GatewayProgram.Folder()
        let configuration = try Self.configuration(folder)
        let (closed, continuation) = AsyncStream.makeStream(of: ProviderTrial.self)
        let doctor = GatewayDoctor(
            configuration,
            gatheringTime: .milliseconds(50),
            lateTime: .milliseconds(50),
            silence: .milliseconds(300),
            responseTime: .milliseconds(500),
            logger: Logger(label: "doctor")
        ) { continuation.yield($0.trial) }
        var trials: [ProviderTrial] = []
        try await doctor.withRunning { port, feedbackPort in
            let pem = folder.path("provider.pem")
            let isOver = ObservedValue(false)
            Thread.detachNewThread {
                var client = DoctorClient(reads: reads)
                while !isOver.current { client.connect(port: port, pem: pem) }
            }
            for await trial in closed {
                trials.append(trial)
                if doctor.isComplete { break }
            }
            isOver.change { $0 = true }
            // Some keep the connection until the next time, and its list is never confirmed.
            let feedback = try #require(BlockingConnection(port: feedbackPort, pem: pem))
            try await eventually("the feedback counts") {
                doctor.habits.lines.contains { $0.name == "feedback" && $0.value == "asked for: 1" }
            }
            _ = consume feedback
        }
        #expect(trials.count >= ProviderTrial.totalCount - 1)
        let lines = doctor.habits.settings(provider: "shop")
        #expect(lines.contains { $0.hasPrefix("    rejections: \(reads ? "report" : "ignore")") }, "\(lines)")
        let text = doctor.habits.lines.map { "\($0.name): \($0.value)" }
        #expect(text.contains("identifiers: from 0 on each connection") && text.contains("command: 1"), "\(text)")
        for response in doctor.habits.responses where reads && response.reaction != .unknown {
            #expect(response.reaction == (response.trial == .rejection || response.trial == .shutdown ? .rest : .all))
        }
    }

    /// A doctor with short times meets a provider that connects again and again.
    ///
    /// `send` gets each connection, the number of its first notification, and whether enough was seen.
    private static func habits(
        gatheringTime: Duration = .milliseconds(20),
        lateTime: Duration = .milliseconds(20),
        _ send: @escaping @Sendable (BlockingConnection, _ number: inout UInt32, _ isOver: ObservedValue<Bool>) -> Void
    ) async throws -> ProviderHabits {
        let folder = try GatewayProgram.Folder()
        let (closed, continuation) = AsyncStream.makeStream(of: Void.self)
        let doctor = GatewayDoctor(
            try Self.configuration(folder),
            gatheringTime: gatheringTime,
            lateTime: lateTime,
            silence: .milliseconds(100),
            responseTime: .milliseconds(100),
            logger: Logger(label: "doctor")
        ) { _ in continuation.yield() }
        try await doctor.withRunning { port, _ in
            let pem = folder.path("provider.pem")
            let isOver = ObservedValue(false)
            Thread.detachNewThread {
                var number: UInt32 = 0
                while !isOver.current {
                    if let connection = BlockingConnection(port: port, pem: pem) { send(connection, &number, isOver) }
                }
            }
            for await _ in closed where doctor.isComplete { break }
            isOver.change { $0 = true }
        }
        return doctor.habits
    }

    @Test func `a provider that keeps its connection meets every trial`() async throws {
        let habits = try await Self.habits { connection, number, isOver in
            while !isOver.current, !connection.isEnded(within: 5) {
                _ = connection.write(HabitRun.frame(number, identifier: number, expiry: 0, usesItems: true))
                number += 1
            }
        }
        for trial in ProviderTrial.allCases {
            #expect(habits.responses.count { $0.trial == trial } >= ProviderTrial.connectionCount, "\(trial)")
        }
        let text = habits.lines.map { "\($0.name): \($0.value)" }
        #expect(text.contains { $0.hasSuffix("; it keeps them open") } && text.contains("SNI: none"), "\(text)")
    }

    /// It looks whether an answer has come before the next notification, as many scripts do, and never sends one again.
    @Test func `a provider that waits too briefly for an answer must not see late ones`() async throws {
        let habits = try await Self.habits(
            gatheringTime: .milliseconds(10),
            lateTime: .milliseconds(300)
        ) { connection, number, isOver in
            while !isOver.current {
                _ = connection.write(HabitRun.frame(number, identifier: number, expiry: 0, usesItems: false))
                number += 1
                guard case .none = connection.read(within: 150) else { break }
            }
        }
        #expect(try #require(habits.ignoresRejections).isSet, "\(habits.lines)")
    }

    @Test func `what a provider misses that never waits is known at once`() async throws {
        let habits = try await Self.habits(
            gatheringTime: .seconds(60),
            lateTime: .seconds(60)
        ) { connection, number, _ in
            _ = connection.write(HabitRun.frame(number, identifier: number, expiry: 0, usesItems: false))
            number += 1
        }
        let rejections = habits.responses.filter { $0.trial == .rejection && $0.reaction != .unknown }
        #expect(rejections.count >= ProviderTrial.connectionCount - 1 && rejections.allSatisfy(\.isMissed))
        #expect(habits.ignoresRejections?.reason == "it closes each connection without waiting for an error response")
    }

    /// Without clear identifiers, there is no response that could follow an acceptance, so it meets a reset.
    @Test func `a provider whose identifiers are all alike, and that never reads, meets every trial`() async throws {
        let habits = try await Self.habits { connection, number, isOver in
            while !isOver.current,
                connection.write(HabitRun.frame(number, identifier: 0, expiry: 0, usesItems: false))
            {
                number += 1
                BlockingConnection.pause(milliseconds: 1)
            }
        }
        #expect(habits.responses.count { $0.trial == .shutdown } >= ProviderTrial.connectionCount)
    }

    @Test func `a provider that ends its handshakes is reported`() async throws {
        let folder = try GatewayProgram.Folder()
        let configuration = try Self.configuration(folder)
        let doctor = GatewayDoctor(configuration, logger: Logger(label: "doctor")) { _ in }
        try await doctor.withRunning { port, _ in
            let other = TLSTrust.pem(try CertificateAuthority(name: "Foreign").certificatePEM)
            let tls = TLSConfiguration.client(identity: folder.provider.identity, trust: other)
            _ = try? await ScriptedProvider.withConnection(port: port, tls: tls) { try await $0.end() }
            try await eventually("the feedback counts") {
                doctor.habits.problem?.contains("it must trust") == true
            }
        }
    }

    @Test func `the command prints what it saw when it is interrupted`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let words = ["gateway", "doctor", "--config", folder.path("gateway.yaml")]
        let streams = Child.Streams(output: folder.path("output"), error: folder.path("log"))
        let child = try Child(words, streams)
        try await eventually("it listens") { folder.read("output").contains("\n") }
        let ports = GatewayProgram.ports(String(folder.read("output").prefix { $0 != "\n" }))
        try #require(ports.count == 2)
        let pem = folder.path("provider.pem")
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var client = DoctorClient(reads: true)
                client.connect(port: ports[0], pem: pem)
                continuation.resume()
            }
        }
        try await eventually("the connection is reported") { folder.read("log").contains("all accepted") }
        child.send(SIGINT)
        let ending = try await child.end()
        let output = folder.read("output")
        #expect(ending.code == 1 && output.contains("consecutive, from 0\n"), "\(output) \(folder.read("log"))")
    }
}

/// A client that sends five notifications on each connection, after those that it has to send again.
private struct DoctorClient {
    private let reads: Bool
    private var again: [UInt32] = []
    private var next: UInt32 = 1

    init(reads: Bool) { self.reads = reads }

    mutating func connect(port: Int, pem: String) {
        guard let connection = BlockingConnection(port: port, pem: pem) else { return }
        let numbers = self.again + (self.next..<(self.next + 5))
        self.next += 5
        self.again = []
        for (place, number) in numbers.enumerated() {
            _ = connection.write(
                HabitRun.frame(number, identifier: UInt32(place), expiry: 2_000_000_000, usesItems: false)
            )
        }
        guard self.reads else { return BlockingConnection.pause(milliseconds: 100) }
        switch connection.read(within: 500) {
        case .none: break
        case .end: self.again = numbers
        case .bytes(let bytes):
            let place = Int(bytes.last ?? 0)
            self.again = Array(numbers[min(numbers.count, place + 1)...])
        }
    }
}
