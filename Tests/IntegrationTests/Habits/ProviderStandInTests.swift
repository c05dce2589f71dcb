// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// Bytes that a real program was seen to write, and what it does around its writes; docs/recipes describes each.
struct ProviderStandIn: Sendable, CustomTestStringConvertible {
    /// What it does with its connections.
    enum Habit: Sendable {
        /// Writes everything on one connection, and never reads.
        case oneConnection
        /// Writes the whole list once for each of its elements.
        case listForEachElement
        /// Opens a connection for each notification, and closes it after the write.
        case connectionEach
        /// Does that at the same time for all, and waits for error responses before it closes.
        case connectionsAtOnce
        /// Waits for an error response after each write, for so many milliseconds, and connects again after one.
        case poll(milliseconds: CInt)
    }

    /// The program, with its commit or tag.
    var testDescription: String
    var topic = GatewayProgram.topic
    /// The keys of its provider in the gateway's configuration.
    var settings = "rejections: ignore"
    var habit: Habit
    var payload = "{\"aps\":{\"alert\":\"Hello\"}}"
    /// The bytes of the notification with a place from 0.
    var frame: @Sendable (_ place: Int, _ token: [UInt8], _ payload: [UInt8]) -> [UInt8]
    /// What arrives at the service.
    var pushType: PushType?
    var priority: UInt8 = 10
    var expiry: PushExpiry = .none
    /// The error response that it reads; `nil` if there is none.
    var response: [UInt8]?

    /// How often it writes each of so many notifications.
    func timesEach(_ count: Int) -> Int {
        if case .listForEachElement = self.habit { count } else { 1 }
    }

    /// The expiry of programs that set one.
    static let expiry = UInt32(time(nil)) + 86_400

    private static func big(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }

    /// Command 2 with items 1 to 5 in this order.
    private static func items(
        _ token: [UInt8],
        _ payload: [UInt8],
        identifier: [UInt8],
        expiry: UInt32,
        priority: UInt8
    ) -> [UInt8] {
        let contents = [token, payload, identifier, Self.big(expiry), [priority]]
        let items = contents.enumerated().flatMap { number, content in
            [UInt8(number + 1)] + Self.big(UInt16(content.count)) + content
        }
        return [2] + Self.big(UInt32(items.count)) + items
    }

    static let all: [Self] = [
        Self(
            testDescription: "flexisip 1.0.13",
            topic: "com.example.app.voip",
            settings: "rejections: report",
            habit: .poll(milliseconds: TestEffort.count(100, long: 1000)),
            // The identifier is the number 1 in the byte order of its machine.
            frame: { _, token, payload in
                Self.items(token, payload, identifier: [1, 0, 0, 0], expiry: Self.expiry, priority: 10)
            },
            pushType: .voip,
            expiry: PushExpiry(wireValue: Self.expiry),
            response: [8, 8, 1, 0, 0, 0]
        ),
        Self(
            testDescription: "connorlacombe/Safari-Push-Notifications 5fa6c3c",
            topic: "web.com.example",
            habit: .connectionEach,
            payload:
                "{\"aps\":{\"alert\":{\"title\":\"Hello\",\"body\":\"News\"},\"url-args\":[\"1\"]}}",
            frame: Self.safariFrame
        ),
        Self(
            testDescription: "st3fan/dovecot-xaps-daemon b098747 with timehop/apns 7dfe710",
            topic: "com.apple.mail.XServer.01234567-89ab-cdef-0123-456789abcdef",
            settings: "rejections: ignore\n    rejectedToFeedback: true",
            habit: .oneConnection,
            payload: "{\"aps\":{\"account-id\":\"01234567-89ab-cdef-0123-456789abcdef\"}}",
            // The library writes its default, which is no priority of the protocol.
            frame: { place, token, payload in
                Self.items(
                    token,
                    payload,
                    identifier: Self.big(UInt32(place + 1)),
                    expiry: Self.expiry,
                    priority: 0
                )
            },
            pushType: .background,
            priority: 5,
            expiry: PushExpiry(wireValue: Self.expiry)
        ),
        Self(
            testDescription: "jpoz/APNS 5b6590e",
            habit: .listForEachElement,
            // The identifier has four random bytes.
            frame: { place, token, payload in
                let identifier = [0xA5, 0x17, 0xFE, UInt8(place)]
                return Self.items(token, payload, identifier: identifier, expiry: 0, priority: 10)
            },
            pushType: .alert,
            expiry: .immediately
        ),
        Self(
            testDescription: "myriky/XMPP2APNS 52d23f0 with JavaPNS 2.0",
            settings: "rejections: report",
            habit: .connectionsAtOnce,
            frame: { place, token, payload in
                [1] + Self.big(UInt32(place + 1)) + Self.big(Self.expiry) + Self.big(UInt16(token.count)) + token
                    + Self.big(UInt16(payload.count)) + payload
            },
            pushType: .alert,
            expiry: PushExpiry(wireValue: Self.expiry),
            response: [8, 8, 0, 0, 0, 2]
        ),
    ]

    /// Command 0 with lengths of one byte behind a byte of 0.
    static func safariFrame(_ place: Int, _ token: [UInt8], _ payload: [UInt8]) -> [UInt8] {
        [0, 0, 32] + token + [0, UInt8(truncatingIfNeeded: payload.count)] + payload
    }
}

/// A stand-in's connections, on its thread.
private struct StandInClient: Sendable {
    let port: Int
    let pem: String
    /// Whether the service has settled everything.
    let isSettled: @Sendable () -> Bool

    private func connect() throws -> BlockingConnection {
        guard let connection = BlockingConnection(port: self.port, pem: self.pem) else {
            throw Child.Failure(description: "no connection")
        }
        return connection
    }

    private func write(_ frame: [UInt8], _ connection: BlockingConnection) throws {
        guard connection.write(frame) else { throw Child.Failure(description: "a write failed") }
    }

    private func response(_ connection: BlockingConnection, within milliseconds: CInt) -> [UInt8]? {
        guard case .bytes(let bytes) = connection.read(within: milliseconds) else { return nil }
        return bytes
    }

    /// Sends, and returns the error responses.
    func send(_ frames: [[UInt8]], _ habit: ProviderStandIn.Habit) throws -> [[UInt8]] {
        switch habit {
        case .oneConnection, .listForEachElement:
            let connection = try self.connect()
            let list = Array(frames.joined())
            for frame in frames {
                if case .listForEachElement = habit {
                    try self.write(list, connection)
                } else {
                    try self.write(frame, connection)
                }
            }
            connection.sendCloseNotify()
            return []
        case .connectionEach:
            for frame in frames {
                let connection = try self.connect()
                try self.write(frame, connection)
                connection.sendCloseNotify()
            }
            return []
        case .connectionsAtOnce:
            let connections = try frames.map { frame in
                let connection = try self.connect()
                try self.write(frame, connection)
                return connection
            }
            // The program waits five seconds on each; here, until there is nothing more to wait for.
            while !self.isSettled() { BlockingConnection.pause(milliseconds: 5) }
            return connections.compactMap { self.response($0, within: 50) }
        case .poll(let milliseconds):
            var responses: [[UInt8]] = []
            var connection = try self.connect()
            for frame in frames {
                try self.write(frame, connection)
                guard let response = self.response(connection, within: milliseconds) else { continue }
                responses.append(response)
                connection = try self.connect()
            }
            return responses
        }
    }
}

/// Goal: programs that run today and write what no documentation describes are served as Apple's service did.
@Suite(.timeLimit(.minutes(2))) struct ProviderStandInTests {
    /// The devices, and a token that no device has in the second place.
    private struct Recipients {
        var tokens: [DeviceToken]
        var unknown: DeviceToken { self.tokens[1] }
    }

    private static func tls(_ folder: GatewayProgram.Folder) -> TLSConfiguration {
        .server(identity: folder.server.identity, trust: .pem(folder.authority.certificatePEM))
    }

    /// Runs a gateway for a stand-in in front of a simulator.
    private static func run(
        _ standIn: ProviderStandIn,
        _ body: (GatewayProgram, Simulator, Recipients) async throws -> Void
    ) async throws {
        let folder = try GatewayProgram.Folder()
        let identity = try folder.authority.issueClient(topic: standIn.topic)
        for name in ["provider.pem", "upstream.pem"] { try folder.write(name, identity.pem) }
        try await Simulator.withRunning(SimulatorConfiguration(tls: Self.tls(folder))) { simulator in
            var tokens = (0..<3).map { _ in simulator.register(topic: standIn.topic) }
            tokens.insert(try GatewayProgram.token(404), at: 1)
            try folder.configure(
                upstreamPort: simulator.http2Port,
                clients: "{authority: ca.pem}\n    " + standIn.settings
            )
            let gateway = try await GatewayProgram(folder)
            try await body(gateway, simulator, Recipients(tokens: tokens))
            #expect(try await gateway.end().code == 0)
        }
    }

    /// Lets a stand-in send, as its program does, on a thread of its own.
    ///
    /// - Returns: the error responses that it read.
    private static func send(
        _ standIn: ProviderStandIn,
        _ frames: [[UInt8]],
        _ gateway: GatewayProgram,
        until isSettled: @escaping @Sendable () -> Bool
    ) async throws -> [[UInt8]] {
        let client = StandInClient(port: gateway.port, pem: gateway.folder.path("provider.pem"), isSettled: isSettled)
        return try await NIOThreadPool.singleton.runIfActive { try client.send(frames, standIn.habit) }
    }

    @Test(arguments: ProviderStandIn.all) func `each notification is delivered as the program means it`(
        _ standIn: ProviderStandIn
    ) async throws {
        try await Self.run(standIn) { gateway, simulator, recipients in
            try await Self.check(standIn, gateway, simulator, recipients)
        }
    }

    private static func check(
        _ standIn: ProviderStandIn,
        _ gateway: GatewayProgram,
        _ simulator: Simulator,
        _ recipients: Recipients
    ) async throws {
        let payload = Array(standIn.payload.utf8)
        let frames = recipients.tokens.enumerated().map { place, token in
            standIn.frame(place, token.withUnsafeBytes { Array($0) }, payload)
        }
        let timesEach = standIn.timesEach(frames.count)
        let isSettled: @Sendable () -> Bool = {
            simulator.receivedNotifications.count + simulator.rejectedNotifications.count >= 4 * timesEach
        }
        let responses = try await Self.send(standIn, frames, gateway, until: isSettled)
        try await eventually("all have arrived") { isSettled() }
        #expect(responses == (standIn.response.map { [$0] } ?? []))
        let counts = recipients.tokens.map { simulator.receivedCount(of: $0) }
        #expect(counts == recipients.tokens.map { $0 == recipients.unknown ? 0 : timesEach })
        let rejected = simulator.rejectedNotifications.map(\.token)
        #expect(rejected == Array(repeating: recipients.unknown, count: timesEach))
        for received in simulator.receivedNotifications {
            #expect(received.payload == payload && received.topic == standIn.topic)
            #expect(received.pushType == standIn.pushType && received.priority == standIn.priority)
            #expect(received.expiry == standIn.expiry)
        }
        guard standIn.settings.contains("rejectedToFeedback") else { return }
        let identity = try TLSIdentity(contentsOf: gateway.folder.path("provider.pem"))
        var tokens: [DeviceToken] = []
        // The gateway writes it after the answer of the service.
        try await eventually("the rejected token is in the feedback list") {
            tokens += try await gateway.feedback(identity).map(\.token)
            return !tokens.isEmpty
        }
        #expect(tokens == [recipients.unknown])
    }

    @Test func `a length that the Safari script cuts to one byte costs that notification and no other`() async throws {
        let standIn = try #require(ProviderStandIn.all.first { $0.testDescription.contains("Safari") })
        try await Self.run(standIn) { gateway, simulator, recipients in
            // The last payload is 45 bytes too long for one byte.
            let payloads = [255, 256 + 44, 20].map { count in
                let (head, tail) = ("{\"url-args\":[\"", "\"]}")
                return head + String(repeating: "x", count: count - head.count - tail.count) + tail
            }
            let devices = recipients.tokens.filter { $0 != recipients.unknown }
            let frames = zip(devices, payloads).map { token, payload in
                standIn.frame(0, token.withUnsafeBytes { Array($0) }, Array(payload.utf8))
            }
            #expect(try await Self.send(standIn, frames, gateway) { true } == [])
            try await eventually("two have arrived") { simulator.receivedNotifications.count == 2 }
            let received = Set(simulator.receivedNotifications.map { String(decoding: $0.payload, as: UTF8.self) })
            #expect(received == [payloads[0], payloads[2]])
            #expect(simulator.receivedCount(of: devices[1]) == 0)
            let line = try await gateway.lines("notifications rejected, no error response sent")[0]
            #expect(line.contains("\"apns.legacy.notifications.dropped\":\"1\""), "\(line)")
        }
    }
}
