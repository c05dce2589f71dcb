// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSSimulator
import APNSWire
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOEmbedded

@testable import SimulatorService

/// The requests of the simulator's control API.
enum ControlFuzz {
    /// The most requests of one input.
    private static let requestCountMax = 8
    private static let revocationCount = 10_000

    /// No request fails in the simulator, whatever it is.
    ///
    /// The input is requests, each of which ends with a record separator (1E): a line with the method, the path and
    /// `json` or nothing, and the body. With `+` in front, as many certificates are revoked as can be.
    static func run(_ bytes: [UInt8]) async throws {
        let control = try await RunningControl.shared.get()
        var input = FuzzInput(bytes)
        if bytes.first == UInt8(ascii: "+") {
            _ = input.byte()
            for number in 0..<self.revocationCount { control.simulator.revoke("\(number)") }
        }
        for _ in 0..<self.requestCountMax where !input.isEmpty {
            try await self.request(input.bytes(upTo: 0x1E), control)
        }
        control.simulator.reset()
        for fingerprint in control.simulator.revokedFingerprints { _ = control.simulator.restore(fingerprint) }
    }

    private static func request(_ bytes: [UInt8], _ control: RunningControl) async throws {
        let line = String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self).split(separator: " ")
        guard line.count >= 2, let method = HTTPRequest.Method(String(line[0])), line[1].utf8.allSatisfy({ $0 > 0x20 })
        else { return }
        // A request may wait for notifications, for up to ten minutes; here only for a few milliseconds.
        let path = PercentEncoding.decoded(line[1]) ?? ""
        guard !path.contains("wait=") || path.contains(/wait=[0-9]ms(&|$)/) else { return }
        var head = HTTPRequest(method: method, scheme: "http", authority: "localhost", path: String(line[1]))
        if line.last == "json" { head.headerFields[.contentType] = "application/json" }
        if line.last == "gzip" { head.headerFields[.acceptEncoding] = "gzip" }
        let body = ByteBuffer(bytes: bytes.drop { $0 != 0x0A }.dropFirst())
        let request = Request(head: head, body: RequestBody(buffer: body))
        let response = await control.responder.respond(to: request, on: control.channel)
        try require(
            response.status.code < 500 || response.status.code == 507,
            "\(line[0]) \(line[1]): \(response.status)"
        )
        // Events have no end.
        guard response.headers[.contentType] != "text/event-stream" else { return }
        try await response.body.write(DiscardingWriter())
    }
}

/// A simulator that runs as long as the process.
private struct RunningControl: Sendable {
    let simulator: Simulator
    let responder: ControlResponder
    let channel: NIOAsyncTestingChannel

    static let shared = Shared()

    actor Shared {
        private var running: RunningControl?

        func get() async throws -> RunningControl {
            if let running { return running }
            let (controls, continuation) = AsyncStream<RunningControl>.makeStream()
            Task.detached {
                var configuration = try SimulatorConfiguration(tls: CertificateAuthority().makeServerTLS())
                let control = SimulatorControl(ControlConfiguration(), version: "fuzz", of: &configuration)
                try await Simulator.withRunning(
                    configuration,
                    logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
                ) { simulator in
                    let responder = ControlResponder(
                        ControlConfiguration(),
                        routes: control.routes(simulator),
                        logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
                    )
                    continuation.yield(
                        RunningControl(simulator: simulator, responder: responder, channel: NIOAsyncTestingChannel())
                    )
                    // Until the process ends.
                    for await _ in AsyncStream<Never>.makeStream().stream {}
                }
            }
            for await control in controls {
                self.running = control
                return control
            }
            throw FuzzFinding(description: "there is no simulator")
        }
    }
}

private struct DiscardingWriter: ResponseBodyWriter {
    mutating func write(_ buffer: ByteBuffer) async throws {}
    consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
