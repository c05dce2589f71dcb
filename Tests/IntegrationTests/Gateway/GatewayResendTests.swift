// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import Testing

/// Goal: a resend of a notification delivered after a rejection is not delivered again, and nothing else is mistaken
/// for one.
@Suite(.timeLimit(.minutes(2))) struct GatewayResendTests {
    /// A service that rejects the fifth token.
    private static func service() -> ChainRecord {
        ChainRecord { $0.number == 5 ? .badToken : ChainRecord.Answer() }
    }

    /// The outcomes of ten notifications that are each sent once.
    private static let eachOnce = Dictionary(uniqueKeysWithValues: (1...10).filter { $0 != 5 }.map { ($0, 1) })

    @Test func `with command 0, which has no error response, the same ten are all sent again`() async throws {
        let record = Self.service()
        try await record.upstream().withGateway { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            try await provider.write(1...10, command: 0)
            try await record.wait(requestCount: 10)
            try await provider.connect(after: 0.5)
            try await provider.write(1...10, command: 0)
            try await record.wait(requestCount: 20)
        }
        let counts = Dictionary(record.requests.map { ($0.number, 1) }, uniquingKeysWith: +)
        #expect(counts == Dictionary(uniqueKeysWithValues: (1...10).map { ($0, 2) }))
    }

    @Test func `resends that are not delivered again are one line in the log, and a count of their connection`()
        async throws
    {
        let record = Self.service()
        try await record.upstream().withGateway { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            try await provider.write(1...10)
            #expect(try await provider.read(count: 6).bytes == "080800000005")
            try await provider.connect()
            try await provider.write(6...10, probe: 11)
            #expect(try await provider.read(count: 6).bytes == "08020000000b")
            try await provider.close()
            try await gateway.lines("\"resends not delivered again\"", "\"apns.legacy.notifications.resent\":\"5\"")
            let entries = try gateway.entries("resends not delivered again")
            #expect(entries.map { $0["level"] } == ["info"])
            try await gateway.lines("\"connection closed\"", countMin: 2)
            let closed = try gateway.entries("connection closed").filter {
                $0["apns.legacy.notifications.resent"] != nil
            }
            #expect(closed.map { $0["apns.legacy.notifications.resent"] } == ["5"])
            #expect(closed.map { $0["apns.legacy.notifications.delivered"] } == ["0"])
        }
        #expect(record.takenCounts == Self.eachOnce)
    }

    /// The response of the service to the last three before the restart.
    enum Late: CaseIterable, Sendable {
        /// It accepts them with the others.
        case taken
        /// It accepts them, and responds half a second later.
        case takenSlowly
        /// It is unavailable for them.
        case notTaken

        var answer: ChainRecord.Answer {
            switch self {
            case .taken: ChainRecord.Answer()
            case .takenSlowly: ChainRecord.Answer(moment: .after(milliseconds: 500))
            case .notTaken: .unavailable
            }
        }
    }

    @Test(arguments: [SIGTERM, SIGKILL], Late.allCases)
    func `a resend is delivered once, even if another process of the gateway receives it`(
        signal: CInt,
        late: Late
    ) async throws {
        let isRestarted = NIOLockedValueBox(false)
        let record = ChainRecord { occasion in
            switch occasion.number {
            case 5: .badToken
            case 8...10 where !isRestarted.withLockedValue { $0 }: late.answer
            default: ChainRecord.Answer()
            }
        }
        let folder = try GatewayProgram.Folder()
        let (port, feedbackPort) = (try ReservedPort(), try ReservedPort())
        try await record.upstream().run(folder) { servicePort in
            let listen = "{port: \(port.number), feedbackPort: \(feedbackPort.number)}"
            try folder.configure(upstreamPort: servicePort, listen: listen)
            let provider = try FrameProvider(folder, port: port.number)
            let first = try await GatewayProgram(folder)
            try await provider.connect()
            try await provider.write(1...10)
            #expect(try await provider.read(count: 6).bytes == "080800000005")
            try await provider.close()
            first.child.send(signal)
            _ = try await first.child.end()
            isRestarted.withLockedValue { $0 = true }
            let second = try await GatewayProgram(folder)
            try await provider.connect()
            try await provider.write(6...10, probe: 11)
            #expect(try await provider.read(count: 6).bytes == "08020000000b")
            try await provider.close()
            #expect(try await second.end().code == 0)
        }
        #expect(record.takenCounts == Self.eachOnce)
    }
}
