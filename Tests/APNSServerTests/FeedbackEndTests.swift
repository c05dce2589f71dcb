// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSTransport
import Glibc
import ListenerFixtures
import Logging
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSServer

/// Goal: a list is acknowledged if its provider has read it, and kept if it has not, however the provider closes.
///
/// Method: real sockets over TLS, with lists that fit into the socket of the provider, and lists that do not.
@Suite(.timeLimit(.minutes(2))) struct FeedbackEndTests {
    typealias Fixture = ListenerFixture

    /// How a provider ends its connection.
    enum Close: CaseIterable {
        /// Closes the sending side, with close_notify and without.
        case halfNotified, half
        /// Closes the socket, with close_notify and without.
        case wholeNotified, whole
        /// Sends close_notify, waits for the answer, and closes the socket.
        case answered

        func apply(to provider: ScriptedProvider) async throws {
            switch self {
            case .halfNotified: try await provider.closeOutput()
            case .half:
                let cut = RawCloseHandler.Cut(keepsInput: true)
                try await provider.channel.triggerUserOutboundEvent(cut).get()
            case .wholeNotified:
                try await provider.closeOutput()
                provider.cut()
            case .whole: provider.cut()
            case .answered: provider.channel.close(promise: nil)
            }
        }
    }

    private static func run<Value: Sendable>(
        _ store: CountedStore,
        isReading: Bool = true,
        version: TLSVersion = .tls1_3,
        _ change: (inout FeedbackListenerConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (ScriptedProvider) async throws -> Value
    ) async throws -> (value: Value, reason: String) {
        let lines = LogLines()
        let configuration = try FeedbackListenerTests.configuration {
            $0.closingPause = .milliseconds(300)
            change(&$0)
        }
        let value = try await FeedbackListenerTests.withListener(
            store,
            configuration,
            logger: lines.logger(.info)
        ) { listener, port in
            let tls = try Fixture.client(version: version)
            let value = try await ScriptedProvider.withConnection(port: port, tls: tls, isReading: isReading) {
                try await store.wait("the list") { $0.openedCount > 0 }
                let value = try await body($0)
                if !isReading { try await eventually("the end") { listener.connectionCount == 0 } }
                return value
            }
            try await eventually("the end") { listener.connectionCount == 0 }
            return value
        }
        let line = try #require(lines.of("feedback connection closed").first)
        return (value, "\(line.metadata["apns.legacy.connection.reason"] ?? "")")
    }

    private static let unclear =
        "the provider closed only its sending side; whether it read the list is unknown; the list is kept"
    private static let unread = "closed before the whole list was read; the list is kept"
    private static let read = "the provider read the whole list"

    /// All combinations in a long run, otherwise some that contain each value.
    private static func cases<First, Second>(
        _ first: [First],
        _ second: [Second]
    ) -> [(First, Second)] {
        let all = first.flatMap { value in second.map { (value, $0) } }
        let count = TestEffort.count(max(first.count, second.count), long: all.count)
        return count == all.count
            ? all : (0..<count).map { (first[$0 % first.count], second[$0 % second.count]) }
    }

    @Test(arguments: Self.cases([3, 5000, 0, 200_000], [Close.halfNotified, .half]))
    func `a provider that half-closes at once and never reads keeps its list`(_ count: Int, _ close: Close) async throws
    {
        let store = CountedStore(count: count)
        let fits = count < 100
        let change: (inout FeedbackListenerConfiguration) -> Void = {
            // The half-close has to arrive before the end is sent.
            $0.closesBehindList = close == .halfNotified
            $0.closingPause = $0.closesBehindList ? .seconds(1) : .milliseconds(50)
            if !fits { $0.progressTimeout = .milliseconds(600) }
        }
        let (_, reason) = try await Self.run(store, isReading: false, change) { try await close.apply(to: $0) }
        #expect(store.current.acknowledgementCount == 0)
        #expect(reason == (fits ? Self.unclear : Self.unread))
        // It is offered again.
        let (bytes, again) = try await Self.run(store) { try await $0.end().bytes }
        #expect(bytes.count == count * 38 && again == Self.read)
        #expect(store.current.acknowledgedCount == count)
    }

    @Test(arguments: Self.cases([TLSVersion.tls1_2, .tls1_3], [Close.halfNotified, .half]))
    func `a provider that half-closes and reads receives its whole list in time, which is kept`(
        _ version: TLSVersion,
        _ close: Close
    ) async throws {
        for count in [3, TestEffort.count(20_000, long: 200_000)] {
            let store = CountedStore(count: count)
            let (ending, reason) = try await Self.run(store, version: version, { $0.closesBehindList = false }) {
                provider in
                try await close.apply(to: provider)
                return try await provider.end(within: .seconds(50))
            }
            #expect(ending.bytes.count == count * 38 && ending.hasCloseNotify)
            #expect(store.current.acknowledgementCount == 0 && reason == Self.unclear)
        }
    }

    @Test(arguments: Self.cases([3, 0, 5000], [Close.whole, .wholeNotified, .answered]), [true, false])
    func `a provider that has read everything may close first`(
        _ values: (count: Int, close: Close),
        _ closesBehindList: Bool
    ) async throws {
        let store = CountedStore(count: values.count)
        let version = closesBehindList ? TLSVersion.tls1_3 : .tls1_2
        let (_, reason) = try await Self.run(store, version: version, { $0.closesBehindList = closesBehindList }) {
            try await $0.received(byteCount: values.count * 38)
            try await values.close.apply(to: $0)
            try await store.wait("the acknowledgement") { $0.acknowledgementCount == 1 }
        }
        #expect(store.current.acknowledgedCount == values.count && reason == Self.read)
    }

    @Test(arguments: [Close.whole, .answered])
    func `a provider that reads to the end and closes has read everything`(_ close: Close) async throws {
        let store = CountedStore(count: 5000)
        let (_, reason) = try await Self.run(store) {
            #expect(try await $0.end().bytes.count == 5000 * 38)
            try await close.apply(to: $0)
        }
        #expect(store.current.acknowledgedCount == 5000 && reason == Self.read)
    }

    @Test(arguments: [3, 5000, 200_000], [Close.whole, .wholeNotified])
    func `a provider that closes with unread bytes keeps its list`(_ count: Int, _ close: Close) async throws {
        let store = CountedStore(count: count)
        let change: (inout FeedbackListenerConfiguration) -> Void = {
            // The reset has to arrive before the end is sent.
            $0.closesBehindList = false
            $0.closingPause = .seconds(5)
        }
        let (_, reason) = try await Self.run(store, isReading: false, change) { try await close.apply(to: $0) }
        #expect(store.current.acknowledgementCount == 0 && reason == Self.unread)
    }

    /// A store that knows the event loop of its last connection.
    private final class LoopStore: FeedbackStore {
        let counted = CountedStore(count: 3)
        let eventLoop = ObservedValue<(any EventLoop)?>(nil)

        func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
            self.eventLoop.change { $0 = MultiThreadedEventLoopGroup.currentEventLoop }
            return self.counted.open(provider)
        }
    }

    /// Resets the connection of a socket that stays open.
    private static func reset(_ descriptor: CInt) -> Bool {
        // Zeros are an address of the family AF_UNSPEC.
        let address = [UInt64](repeating: 0, count: 2)
        return address.withUnsafeBytes {
            connect(descriptor, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count)) == 0
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a reset that the event loop has not seen when it ends the connection keeps the list`(
        _ version: TLSVersion
    ) async throws {
        let store = LoopStore()
        let configuration = try FeedbackListenerTests.configuration { $0.closingPause = .milliseconds(400) }
        try await FeedbackListenerTests.withListener(store, configuration) { listener, port in
            let tls = try Fixture.client(version: version)
            try await ScriptedProvider.withConnection(port: port, tls: tls, isReading: false) { provider in
                let channel = provider.channel
                let descriptor = try await channel.eventLoop.submit {
                    try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
                        of: NIOBSDSocket.Handle.self
                    ) { $0 }
                }.get()
                let socket = try #require(descriptor)
                try await store.eventLoop.wait(until: { $0 != nil }) { _ in
                    ScriptedBackend.DeadlineExceeded(what: "the list")
                }
                // The pause has begun. Its timer is due when the event loop continues, before it looks at its sockets.
                let isReset = try await #require(store.eventLoop.current).scheduleTask(in: .milliseconds(200)) {
                    let due = NIODeadline.now() + .milliseconds(400)
                    let isReset = Self.reset(socket)
                    while NIODeadline.now() < due {}
                    return isReset
                }.futureResult.get()
                #expect(isReset)
                try await eventually("the end") { listener.connectionCount == 0 }
            }
        }
        #expect(store.counted.current.acknowledgementCount == 0)
    }

    /// Whether the end of the stream has arrived at a socket, read or not (`CLOSE_WAIT`).
    private static func hasEnd(_ channel: any Channel) async throws -> Bool {
        try await channel.eventLoop.submit {
            try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { socket in
                var (state, size) = (UInt8(0), socklen_t(1))
                getsockopt(socket, CInt(IPPROTO_TCP), TCP_INFO, &state, &size)
                return state == 8
            } ?? false
        }.get()
    }

    @Test func `a listener that stops does not mistake the cut of a connection for its end`() async throws {
        let store = CountedStore(count: 3)
        for closesBehindList in [true, false] {
            let configuration = try FeedbackListenerTests.configuration { $0.closesBehindList = closesBehindList }
            try await FeedbackListenerTests.withListener(store, configuration) { listener, port in
                let tls = try Fixture.client()
                try await ScriptedProvider.withConnection(port: port, tls: tls, isReading: false) { provider in
                    try await store.wait("the list") { $0.openedCount > (closesBehindList ? 0 : 1) }
                    if closesBehindList { try await eventually("the end") { try await Self.hasEnd(provider.channel) } }
                    listener.stop()
                    try await eventually("the cut") { listener.connectionCount == 0 }
                }
            }
            #expect(store.current.acknowledgementCount == 0)
        }
    }

    @Test func `with required close_notify, a provider that closes without it keeps its list`() async throws {
        for (close, isAcknowledged) in [(Close.whole, false), (.wholeNotified, true), (.answered, true)] {
            let store = CountedStore(count: 3)
            let (_, reason) = try await Self.run(store, { $0.requiresCloseNotify = true }) {
                try await $0.received(byteCount: 3 * 38)
                try await close.apply(to: $0)
                if isAcknowledged { try await store.wait("the end") { $0.acknowledgementCount == 1 } }
            }
            #expect(store.current.acknowledgementCount == (isAcknowledged ? 1 : 0))
            let kept = "the provider closed without close_notify; the list is kept"
            #expect(reason == (isAcknowledged ? Self.read : kept))
        }
    }
}
