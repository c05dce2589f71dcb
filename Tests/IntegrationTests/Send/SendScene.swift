// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import Logging
import OpenSSLTLS

/// A folder with certificates in which the program runs; removed with this object.
final class SendScene: Sendable {
    /// The result of a run of the program.
    struct Run: ReportingRun, Sendable {
        var ending: Child.Ending
        var output: String
        var error: String
        /// The messages of a run in this process.
        var diagnostics: [Diagnostic] = []

        var exitCode: Int32? { self.ending.code }

        var lines: [ResultLine] {
            get throws { try ResultLine.parse(self.output) }
        }

        /// The messages of `--log-format json`.
        var messages: [LogObject] {
            get throws { try LogObject.parse(self.error) }
        }

        /// The numbers of `--summary json`.
        var counts: [String: Int] {
            get throws { try LogObject.counts(self.output) }
        }
    }

    static let topic = "com.example.app"
    static let authority = Result { try CertificateAuthority() }
    static let gateway = Result { try SendScene.authority.get().issueServer() }
    static let provider = Result { try SendScene.authority.get().issueClient(topic: SendScene.topic) }

    let folder: String

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "send-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        self.folder = folder
        try self.write("ca.pem", SendScene.authority.get().certificatePEM)
        try self.write("provider.pem", SendScene.provider.get().pem)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: self.folder)
    }

    func path(_ name: String) -> String { self.folder + "/" + name }

    @discardableResult
    func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        try Data(bytes).write(to: URL(filePath: self.path(name)))
        return self.path(name)
    }

    @discardableResult
    func write(_ name: String, _ text: String) throws -> String { try self.write(name, Array(text.utf8)) }

    func read(_ name: String) -> String {
        String(decoding: FileManager.default.contents(atPath: self.path(name)) ?? Data(), as: UTF8.self)
    }

    func results(_ name: String = "results.jsonl") throws -> [ResultLine] { try ResultLine.parse(self.read(name)) }

    // MARK: The gateway

    /// The token of a device; those from a million on are not registered.
    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "c", count: 56) + String(repeating: "0", count: 8 - digits.count) + digits
    }

    static func isBad(_ number: Int) -> Bool { number >= 1_000_000 }

    /// Runs a gateway that knows devices 1 to `deviceCount`.
    static func withGateway<Value: Sendable>(
        deviceCount: Int = 100,
        faults: [Fault] = [],
        change: (inout SimulatorConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (Simulator) async throws -> Value
    ) async throws -> Value {
        let devices = try (1...deviceCount).map {
            SimulatedDevice(token: try DeviceToken(Self.token($0)), topic: Self.topic)
        }
        let tls = TLSConfiguration.server(
            identity: try Self.gateway.get().identity,
            trust: try Self.authority.get().trust
        )
        var configuration = try SimulatorConfiguration(tls: tls, devices: devices)
        configuration.faults = faults
        change(&configuration)
        let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })
        return try await Simulator.withRunning(configuration, logger: logger, body)
    }

    // MARK: The program

    /// The options for a gateway.
    func endpoint(_ port: Int) -> [String] {
        [
            "--host", "localhost", "--port", "\(port)", "--certificate", self.path("provider.pem"), "--trust",
            self.path("ca.pem"),
        ]
    }

    /// Runs `apns-legacy send` to completion, in this process.
    func send(_ arguments: [String], port: Int) async throws -> Run {
        try await self.run(["send"] + self.endpoint(port) + arguments)
    }

    /// Runs a command to completion, in this process.
    func run(_ arguments: [String], input: CInt? = nil) async throws -> Run {
        let start = ContinuousClock.now
        let run = try await CommandRun(arguments, input: input)
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        let ending = Child.Ending(code: run.code, signal: nil, isOverdue: false, seconds: seconds)
        return Run(ending: ending, output: run.output, error: run.error, diagnostics: run.diagnostics)
    }

    /// The options for messages and a summary in JSON.
    static let json = ["--log-format", "json", "--summary", "json"]

    /// Runs the program to completion, as a separate process.
    func start(_ arguments: [String]) async throws -> Run {
        let name = UUID().uuidString
        let streams = Child.Streams(output: self.path(name + ".out"), error: self.path(name + ".err"))
        let ending = try await Child(arguments, streams).end()
        return Run(ending: ending, output: self.read(name + ".out"), error: self.read(name + ".err"))
    }

    /// A line of JSON for a device.
    static func line(_ device: Int, id: String? = nil, text: String = "hello") -> String {
        let id = id.map { "\"id\":\($0)," } ?? ""
        return "{\(id)\"token\":\"\(Self.token(device))\",\"payload\":{\"aps\":{\"alert\":\"\(text)\"}}}\n"
    }
}

extension Simulator {
    /// The number of notifications that the simulator accepted for a device.
    func count(_ device: Int) throws -> Int { self.receivedCount(of: try DeviceToken(SendScene.token(device))) }
}
