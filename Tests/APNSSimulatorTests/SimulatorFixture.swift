// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSTestKit
public import APNSWire
import NIOCore
import OpenSSLTLS

/// The certificates and devices of these tests.
enum SimulatorFixture {
    static let topic = "com.example.app"
    static let authority = Result { try CertificateAuthority() }
    static let gateway = Result { try Self.authority.get().issueServer() }
    static let provider = Result { try Self.authority.get().issueClient(topic: Self.topic) }
    static let deadSince: UInt32 = 1_700_000_000

    static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: [UInt8](repeating: 0xD0, count: 30) + [UInt8(number >> 8 & 255), UInt8(number & 255)])
    }

    /// Devices 1 to 100 exist, 101 is dead, 102 is of another app, 103 is of the other environment.
    static func configuration(
        _ faults: [Fault] = [],
        _ change: (inout SimulatorConfiguration) -> Void = { _ in }
    ) throws -> SimulatorConfiguration {
        var devices = try (1...100).map { SimulatedDevice(token: try Self.token($0), topic: Self.topic) }
        let timestamp = Timestamp(secondsSince1970: Int64(Self.deadSince))
        devices.append(SimulatedDevice(token: try Self.token(101), topic: Self.topic, removalTimestamp: timestamp))
        devices.append(SimulatedDevice(token: try Self.token(102), topic: "com.example.other"))
        devices.append(SimulatedDevice(token: try Self.token(103), topic: Self.topic, environment: .production))
        let tls = TLSConfiguration.server(
            identity: try Self.gateway.get().identity,
            trust: try Self.authority.get().trust
        )
        var configuration = try SimulatorConfiguration(tls: tls, devices: devices)
        configuration.faults = faults
        configuration.listener.versionMax = .tls1_3
        change(&configuration)
        return configuration
    }

    static func client(topic: String? = nil) throws -> TLSConfiguration {
        let identity = try topic.map { try Self.authority.get().issueClient(topic: $0) } ?? Self.provider.get()
        let trust = TLSTrust.pem(try Self.authority.get().certificatePEM)
        return .client(identity: identity.identity, trust: trust)
    }

    /// A message with this identifier for the device of this number.
    static func message(_ identifier: UInt32, to device: Int, payload: String = "{\"aps\":{}}") throws -> ByteBuffer {
        var bytes = ByteBuffer()
        let frame = NotificationFrame(
            token: try Self.token(device),
            payload: ByteBuffer(string: payload),
            expiry: 0,
            identifier: identifier,
            command: .enhanced
        )
        try frame.write(into: &bytes)
        return bytes
    }

    /// Messages with the identifiers 1 to `count`, each to the device of the same number.
    static func messages(_ count: Int) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for number in 1...count { bytes.writeImmutableBuffer(try Self.message(UInt32(number), to: number)) }
        return bytes
    }

    static func probe(_ identifier: UInt32) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        try NotificationFrame.probe(identifier: identifier, command: .enhanced).write(into: &bytes)
        return bytes
    }

    static func response(_ status: UInt8, _ identifier: UInt32) -> [UInt8] {
        [8, status] + withUnsafeBytes(of: identifier.bigEndian) { Array($0) }
    }

    /// Sends bytes on a connection of their own, and returns its end.
    static func send(
        _ bytes: ByteBuffer,
        to simulator: Simulator,
        topic: String? = nil
    ) async throws -> ScriptedProvider.Ending {
        try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: try Self.client(topic: topic)) {
            $0.push(bytes)
            return try await $0.end()
        }
    }
}

/// In these tests, a literal is a time in milliseconds since 1970 (UTC).
extension Timestamp: ExpressibleByIntegerLiteral {
    /// Creates a time from milliseconds since 1970 (UTC).
    public init(integerLiteral milliseconds: Int64) { self.init(millisecondsSince1970: milliseconds) }
}
