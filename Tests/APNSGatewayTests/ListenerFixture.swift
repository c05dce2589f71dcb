// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS

/// The certificates of these tests, made once, and frames.
enum ListenerFixture {
    static let topic = "com.example.app"
    static let authority = Result { try TestCertificateAuthority() }
    static let gateway = Result { try Self.authority.get().issueServer() }
    static let provider = Result { try Self.authority.get().issueClient(topic: Self.topic) }

    static func configuration(
        _ change: (inout BinaryListenerConfiguration) -> Void = { _ in }
    ) throws -> BinaryListenerConfiguration {
        var configuration = BinaryListenerConfiguration(
            identity: try Self.gateway.get().identity,
            clientTrust: .pem(try Self.authority.get().certificatePEM)
        )
        configuration.port = 0
        configuration.maximumVersion = .tls1_3
        change(&configuration)
        return configuration
    }

    static func client(
        _ identity: TLSIdentity? = nil,
        version: TLSVersion = .tls1_2,
        isAnonymous: Bool = false
    ) throws -> TLSContext {
        let own = isAnonymous ? nil : try identity ?? Self.provider.get().identity
        var tls = TLSConfiguration.client(identity: own, trust: .pem(try Self.authority.get().certificatePEM))
        tls.maximumVersion = version
        return try TLSContext(tls)
    }

    static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: [UInt8](repeating: 0xA0, count: 30) + [UInt8(number >> 8 & 255), UInt8(number & 255)])
    }

    /// Frames with these identifiers, each for the token of the same number.
    static func frames(_ identifiers: ClosedRange<UInt32>, command: Command = .enhanced) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for identifier in identifiers {
            let frame = NotificationFrame(
                command: command,
                identifier: identifier,
                expiry: 0,
                token: try Self.token(Int(identifier)),
                payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"number \(identifier)\"}}")
            )
            try frame.write(into: &bytes)
        }
        return bytes
    }

    static func probe(_ identifier: UInt32, command: Command = .enhanced) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        try NotificationFrame.probe(command: command, identifier: identifier).write(into: &bytes)
        return bytes
    }

    static func response(_ status: ErrorResponse.Status, _ identifier: UInt32) -> [UInt8] {
        var bytes = ByteBuffer()
        ErrorResponse(status: status, identifier: identifier).write(into: &bytes)
        return Array(bytes.readableBytesView)
    }

    /// Runs a listener and lends its port.
    static func withFront<Value: Sendable>(
        _ backend: any DeliveryBackend,
        _ configuration: BinaryListenerConfiguration? = nil,
        _ body: @escaping @Sendable (BinaryListener, Int) async throws -> Value
    ) async throws -> Value {
        try await BinaryListener.withRunning(try configuration ?? Self.configuration(), backend: backend) { listener in
            let port = try await listener.boundAddress.port ?? 0
            return try await body(listener, port)
        }
    }
}

/// A backend that notes what it is handed, and gives the verdicts that a test decides on.
final class ScriptedBackend: DeliveryBackend {
    struct Taken: Sendable {
        var notification: Notification
        var ticket: DeliveryTicket
    }

    struct Books: Sendable {
        var taken: [Taken] = []
        var providers: [ProviderConnection] = []
        var closedCount = 0
        var discardedCount = 0
    }

    struct DeadlineExceeded: Error { var what: String }

    let requiresOrder: Bool
    private let books = NIOLockedValueBox(Books())
    private let waiters = NIOLockedValueBox<[(@Sendable (Books) -> Bool, EventLoopPromise<Void>)]>([])
    private let verdict: @Sendable (UInt32?) -> DeliveryOutcome?
    private let manner: @Sendable (GatewayEnding) -> CloseStrategy

    init(
        requiresOrder: Bool = false,
        verdict: @escaping @Sendable (_ identifier: UInt32?) -> DeliveryOutcome? = { _ in .accepted },
        manner: @escaping @Sendable (GatewayEnding) -> CloseStrategy = { .orderly($0.response) }
    ) {
        self.requiresOrder = requiresOrder
        self.manner = manner
        self.verdict = verdict
    }

    var current: Books { self.books.withLockedValue { $0 } }

    var identifiers: [UInt32?] { self.current.taken.map(\.ticket.identifier) }

    func admit(_ provider: ProviderConnection) -> Admission {
        self.note { $0.providers.append(provider) }
        return .admitted(Connection(backend: self))
    }

    /// Waits until the books say so, 20 seconds at most.
    func wait(_ what: String, until isMet: @escaping @Sendable (Books) -> Bool) async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let promise = eventLoop.makePromise(of: Void.self)
        let timer = eventLoop.scheduleTask(in: .seconds(20)) { promise.fail(DeadlineExceeded(what: what)) }
        defer { timer.cancel() }
        self.waiters.withLockedValue { $0.append((isMet, promise)) }
        self.note { _ in }
        try await promise.futureResult.get()
    }

    func settle(_ identifier: UInt32, _ verdict: DeliveryOutcome) {
        for taken in self.current.taken where taken.ticket.identifier == identifier { taken.ticket.settle(verdict) }
    }

    private func note(_ change: (inout Books) -> Void) {
        let books = self.books.withLockedValue { books in
            change(&books)
            return books
        }
        let met = self.waiters.withLockedValue { waiters in
            let met = waiters.filter { $0.0(books) }
            waiters.removeAll { $0.0(books) }
            return met
        }
        for (_, promise) in met { promise.succeed(()) }
    }

    private final class Connection: DeliveryConnection {
        let backend: ScriptedBackend

        init(backend: ScriptedBackend) { self.backend = backend }

        func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
            let taken = Taken(notification: message.notification, ticket: message.ticket)
            self.backend.note { $0.taken.append(taken) }
            return self.backend.verdict(message.identifier)
        }

        func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (CloseStrategy) -> Void) {
            carryOut(self.backend.manner(ending))
        }

        func discarded(messageCount: Int) { self.backend.note { $0.discardedCount += messageCount } }

        func closed() { self.backend.note { $0.closedCount += 1 } }
    }
}
