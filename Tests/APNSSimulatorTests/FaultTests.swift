// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// The effect of a fault on a provider, and the simulator's statistics.
struct FaultCase: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var faults: [Fault]
    /// All bytes that the provider reads.
    var bytes: [UInt8]
    var processedCount: Int
    var hasCloseNotify = true

    static let all: [FaultCase] = [
        FaultCase(
            testDescription: "an undocumented status by message",
            faults: [Fault(at: .notification(5), .reject(status: 77))],
            bytes: SimulatorFixture.response(77, 5),
            processedCount: 4
        ),
        FaultCase(
            testDescription: "a status by overall number",
            faults: [Fault(at: .notificationOverall(3), .reject(status: 1))],
            bytes: SimulatorFixture.response(1, 3),
            processedCount: 2
        ),
        FaultCase(
            testDescription: "a response with identifier 0",
            faults: [Fault(at: .notification(5), .reject(status: 8), report: FaultReport(identifier: .zero))],
            bytes: SimulatorFixture.response(8, 0),
            processedCount: 4
        ),
        FaultCase(
            testDescription: "a response with a foreign identifier",
            faults: [Fault(at: .notification(5), .reject(status: 8), report: FaultReport(identifier: .fixed(99)))],
            bytes: SimulatorFixture.response(8, 99),
            processedCount: 4
        ),
        FaultCase(
            testDescription: "status 10 with the identifier of the last accepted notification",
            faults: [Fault(at: .notification(6), .shutDown)],
            bytes: SimulatorFixture.response(10, 6),
            processedCount: 6
        ),
        FaultCase(
            testDescription: "status 10 with identifier 0",
            faults: [Fault(at: .notification(6), .shutDown, report: FaultReport(identifier: .zero))],
            bytes: SimulatorFixture.response(10, 0),
            processedCount: 6
        ),
        FaultCase(
            testDescription: "an end without an error response",
            faults: [Fault(at: .notification(6), .closeAfter)],
            bytes: [],
            processedCount: 6
        ),
        FaultCase(
            testDescription: "a response that is lost",
            faults: [Fault(at: .notification(6), .reject(status: 8), report: FaultReport(isLost: true))],
            bytes: [],
            processedCount: 5
        ),
        FaultCase(
            testDescription: "a response byte by byte",
            faults: [Fault(at: .notification(6), .reject(status: 8), report: FaultReport(isSplit: true))],
            bytes: SimulatorFixture.response(8, 6),
            processedCount: 5
        ),
        FaultCase(
            testDescription: "a late response",
            faults: [Fault(at: .notification(6), .reject(status: 8), report: FaultReport(delay: .milliseconds(200)))],
            bytes: SimulatorFixture.response(8, 6),
            processedCount: 5
        ),
        FaultCase(
            testDescription: "a reset without a response",
            faults: [
                Fault(at: .notification(6), .reject(status: 8), report: FaultReport(isLost: true, ending: .reset))
            ],
            bytes: [],
            processedCount: 5,
            hasCloseNotify: false
        ),
        FaultCase(
            testDescription: "a reset after an accepted message",
            faults: [Fault(at: .notification(6), .closeAfter, report: FaultReport(ending: .reset))],
            bytes: [],
            processedCount: 6,
            hasCloseNotify: false
        ),
        FaultCase(
            testDescription: "a reset after the response",
            faults: [Fault(at: .notification(6), .reject(status: 8), report: FaultReport(ending: .reset))],
            bytes: SimulatorFixture.response(8, 6),
            processedCount: 5,
            hasCloseNotify: false
        ),
        FaultCase(
            testDescription: "an abrupt close after the response",
            faults: [Fault(at: .notification(6), .reject(status: 8), report: FaultReport(ending: .abrupt))],
            bytes: SimulatorFixture.response(8, 6),
            processedCount: 5
        ),
        FaultCase(
            testDescription: "a close right after the handshake",
            faults: [Fault(at: .connection(1), .refuseConnection)],
            bytes: [],
            processedCount: 0
        ),
        FaultCase(
            testDescription: "a reset right after the handshake",
            faults: [Fault(at: .always, .refuseConnection, report: FaultReport(ending: .reset))],
            bytes: [],
            processedCount: 0,
            hasCloseNotify: false
        ),
        FaultCase(
            testDescription: "a probe's answer byte by byte and with identifier 0",
            faults: [Fault(at: .always, .errorResponse, report: FaultReport(identifier: .zero, isSplit: true))],
            bytes: SimulatorFixture.response(2, 0),
            processedCount: 20
        ),
        FaultCase(
            testDescription: "a slow reader",
            faults: [
                Fault(at: .always, .slowReading(TransferPace(byteCount: 300, interval: .milliseconds(5))))
            ],
            bytes: SimulatorFixture.response(2, 21),
            processedCount: 20
        ),
    ]
}

@Suite(.timeLimit(.minutes(1)))
struct FaultTests {
    typealias Fixture = SimulatorFixture

    @Test(arguments: FaultCase.all) func `each fault has its effect`(_ fault: FaultCase) async throws {
        try await Simulator.withRunning(try Fixture.configuration(fault.faults)) { simulator in
            var bytes = try Fixture.messages(20)
            bytes.writeImmutableBuffer(try Fixture.probe(21))
            let ending = try await Fixture.send(bytes, to: simulator)
            #expect(ending.bytes == fault.bytes)
            #expect(ending.hasCloseNotify == fault.hasCloseNotify)
            #expect(simulator.statistics.processedCount == fault.processedCount)
            for number in 1...20 {
                let count = simulator.receivedCount(of: try Fixture.token(number))
                #expect(count == (number <= fault.processedCount ? 1 : 0))
            }
        }
    }

    /// Goal: notifications that arrive together with the end of the handshake are read at the pace, too.
    ///
    /// Method: the provider's second flight waits for 100 notifications, and is sent at once.
    @Test func `a slow reader is slow from the first notification on`() async throws {
        let pace = TransferPace(byteCount: 1024, interval: .milliseconds(100))
        let faults = [Fault(at: .always, .slowReading(pace))]
        try await Simulator.withRunning(try Fixture.configuration(faults)) { simulator in
            var bytes = try Fixture.messages(100)
            bytes.writeImmutableBuffer(try Fixture.probe(101))
            let context = try TLSContext(try Fixture.client())
            let byteCount = bytes.readableBytes
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let tls = try TLSHandler.client(context, serverName: "localhost")
                        try channel.pipeline.syncOperations.addHandlers(SecondFlight(byteCount: byteCount), tls)
                    }
                }
                .connect(host: "127.0.0.1", port: simulator.gatewayPort).get()
            let began = ContinuousClock.now
            channel.writeAndFlush(bytes, promise: nil)
            try await eventually("all are read") { simulator.statistics.processedCount == 100 }
            #expect(ContinuousClock.now - began >= .milliseconds(100 * (byteCount / 1024 - 2)))
            try? await channel.close()
        }
    }

    @Test func `a fault by token occurs at each message of the token, up to its limit`() async throws {
        let token = try Fixture.token(7).hexadecimal
        let fault = Fault(at: .token(prefix: token), .reject(status: 1), occurrenceCountMax: 2)
        try await Simulator.withRunning(try Fixture.configuration([fault])) { simulator in
            for _ in 0..<2 {
                let bytes = try Fixture.messages(9)
                #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(1, 7))
            }
            var bytes = try Fixture.messages(9)
            bytes.writeImmutableBuffer(try Fixture.probe(10))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 10))
            #expect(simulator.statistics.processedCount == 6 + 6 + 9)
            #expect(simulator.statistics.endings == [1: 2, 2: 1])
        }
    }

    /// Goal: input during the delay of a response is discarded, and counted as such.
    ///
    /// Method: the provider floods during the delay; only what precedes the bad message counts as processed.
    @Test(arguments: [0, 50, 300]) func `nothing after a bad message counts, however late the response`(
        delayMilliseconds: Int
    ) async throws {
        let report = FaultReport(delay: .milliseconds(delayMilliseconds))
        let late = Fault(at: .always, .errorResponse, report: report)
        let began = ContinuousClock.now
        try await Simulator.withRunning(try Fixture.configuration([late])) { simulator in
            let tls = try Fixture.client()
            try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: tls) { provider in
                var bytes = try Fixture.messages(50)
                bytes.writeImmutableBuffer(try Fixture.message(51, to: 999))
                provider.push(bytes)
                let flood = try Fixture.messages(100)
                for _ in 0..<100 { provider.push(flood) }
                #expect(try await provider.end().bytes == Fixture.response(8, 51))
                // The provider keeps its side open, so everything arrives within the drain time.
                try await eventually("everything is discarded", within: .seconds(4)) {
                    simulator.statistics.discardedCount == 10_000
                }
            }
            #expect(simulator.statistics.processedCount == 50)
            #expect(simulator.receivedCount(of: try Fixture.token(60)) == 0)
        }
        #expect(ContinuousClock.now - began >= .milliseconds(delayMilliseconds))
    }
}

/// Placed below TLS; holds everything after the first flight until it has this many bytes.
private final class SecondFlight: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let byteCount: Int
    private var isFirst = true
    private var held = ByteBuffer()

    init(byteCount: Int) { self.byteCount = byteCount }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        self.held.writeImmutableBuffer(self.unwrapOutboundIn(data))
        promise?.succeed()
    }

    func flush(context: ChannelHandlerContext) {
        guard self.isFirst || self.held.readableBytes >= self.byteCount else { return }
        self.isFirst = false
        context.writeAndFlush(self.wrapOutboundOut(self.held), promise: nil)
        self.held = ByteBuffer()
    }
}
