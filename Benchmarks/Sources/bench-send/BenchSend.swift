// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import ArgumentParser
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// Sends frames of 45 + 100 bytes with the library, and prints the same figures as the C clients.
@main
struct BenchSend: AsyncParsableCommand {
    enum Surface: String, ExpressibleByArgument {
        /// A source that is called on the event loop.
        case source
        /// An asynchronous sequence, of which only failures are read.
        case call
        /// Concurrent calls, each of which waits for the outcome of one notification.
        case await
        /// Encoding only, without a connection.
        case encode
    }

    @Option var surface: Surface
    @Option var host = "localhost"
    @Option var port = 0
    @Option var certificate = ""
    @Option var key = ""
    @Option var trust = ""
    @Option var count: UInt64 = 1_000_000
    @Option(help: "Number of concurrent calls.") var inFlight = 1000
    @Option(help: "Maximum number of unverified notifications.") var window: UInt64 = BinaryLimits().windowCount

    func run() async throws {
        guard self.surface != .encode else {
            try self.encode()
            return
        }
        let identity = try TLSIdentity(contentsOf: self.certificate, key: self.key)
        let tls = TLSConfiguration.client(identity: identity, trust: .file(self.trust))
        var configuration = BinaryConfiguration(endpoint: Endpoint(host: self.host, port: self.port), tls: tls)
        configuration.limits.windowCount = self.window
        let watch = Watch()
        let accepted: UInt64
        switch self.surface {
        case .source: accepted = try await self.sendFromSource(configuration)
        case .call: accepted = try await self.sendSequence(configuration)
        case .await: accepted = try await self.sendAndWait(configuration)
        case .encode: accepted = 0
        }
        let (wall, cpu) = watch.read()
        guard accepted == self.count else { throw ValidationError("\(accepted) of \(self.count) were accepted") }
        print("{\"frames\": \(accepted), \"wall_seconds\": \(wall), \"cpu_seconds\": \(cpu)}")
    }

    /// Encodes into the same 64 KiB repeatedly, and prints the nanoseconds per frame.
    private func encode() throws {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 16)
        defer { memory.deallocate() }
        let token = try CountingSource.token()
        let bytes = Array(CountingSource.payload.utf8)
        let count = self.count
        let watch = Watch()
        var frameCount: UInt64 = 0
        bytes.withUnsafeBytes { payload in
            while frameCount < count {
                guard var encoder = FrameEncoder(writingInto: memory) else { return }
                var fits = true
                while fits, frameCount < count {
                    let identifier = UInt32(truncatingIfNeeded: frameCount)
                    fits = encoder.append(token: token, payload: payload, expiry: 0, identifier: identifier)
                    if fits { frameCount += 1 }
                }
            }
        }
        let (wall, cpu) = watch.read()
        let nanoseconds = cpu / Double(frameCount) * 1e9
        let figures = "\"wall_seconds\": \(wall), \"cpu_seconds\": \(cpu), \"ns_per_frame\": \(nanoseconds)"
        print("{\"frames\": \(frameCount), \(figures)}")
    }

    private func sendFromSource(_ configuration: BinaryConfiguration) async throws -> UInt64 {
        let source = try CountingSource(count: self.count)
        try await BatchSender(configuration).run(source)
        return source.acceptedCount
    }

    /// Repeats the same notification.
    private struct Rows: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let notification: PushNotification
        let count: UInt64
        var next: UInt64 = 0

        mutating func next() async -> (id: UInt64, notification: PushNotification)? {
            guard self.next < self.count else { return nil }
            defer { self.next += 1 }
            return (self.next, self.notification)
        }

        func makeAsyncIterator() -> Self { self }
    }

    private func sendSequence(_ configuration: BinaryConfiguration) async throws -> UInt64 {
        let rows = Rows(notification: try CountingSource.notification(), count: self.count)
        return try await PushClient.withClient(.binary(configuration)) { client in
            var exceptionCount: UInt64 = 0
            for try await _ in client.send(rows, only: .exceptions) { exceptionCount += 1 }
            return rows.count - exceptionCount
        }
    }

    private func sendAndWait(_ configuration: BinaryConfiguration) async throws -> UInt64 {
        var configuration = configuration
        configuration.limits.life = .service
        configuration.limits.verificationDelay = .milliseconds(1)
        configuration.limits.checkpointIntervalMin = .milliseconds(1)
        configuration.limits.verificationIntervalMin = .zero
        let notification = try CountingSource.notification()
        let (count, inFlight) = (self.count, UInt64(self.inFlight))
        return try await PushClient.withClient(.binary(configuration)) { client in
            await withTaskGroup(of: UInt64.self) { group in
                for task in 0..<inFlight {
                    group.addTask {
                        var accepted: UInt64 = 0
                        var number = task
                        while number < count {
                            if await client.send(notification) == .accepted { accepted += 1 }
                            number += inFlight
                        }
                        return accepted
                    }
                }
                return await group.reduce(0, +)
            }
        }
    }
}

/// Repeats the same notification.
final class CountingSource: NotificationSource {
    private struct State: Sendable {
        var next: UInt64 = 0
        var accepted: UInt64 = 0
    }

    /// 100 bytes that pass the payload check, which the client runs by default.
    static let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 70))","badge":1}}"#

    private let token: DeviceToken
    private let bytes: [UInt8]
    private let count: UInt64
    private let state = NIOLockedValueBox(State())

    init(count: UInt64) throws {
        self.count = count
        self.token = try CountingSource.token()
        self.bytes = Array(CountingSource.payload.utf8)
    }

    static func notification() throws -> PushNotification {
        try PushNotification(token: self.token(), payload: self.payload, expiry: .immediately)
    }

    static func token() throws -> DeviceToken { try DeviceToken(bytes: (0..<32).map { UInt8($0) }) }

    var acceptedCount: UInt64 { self.state.withLockedValue { $0.accepted } }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.state.withLockedValue { state in
            self.bytes.withUnsafeBytes { payload in
                while state.next < self.count {
                    let isTaken = batch.append(
                        token: self.token,
                        payload: payload,
                        expiry: .immediately,
                        tag: state.next
                    )
                    guard isTaken else {
                        return .available
                    }
                    state.next += 1
                }
                return .ended
            }
        }
    }

    func settle(_ settled: borrowing SettledNotifications) {
        guard settled.outcome == .accepted else { return }
        let count = UInt64(settled.count)
        self.state.withLockedValue { $0.accepted += count }
    }
}

/// Measures wall time and CPU time since its creation.
struct Watch {
    private let start = Watch.now()

    func read() -> (wall: Double, cpu: Double) {
        let end = Watch.now()
        return (end.wall - self.start.wall, end.cpu - self.start.cpu)
    }

    private static func now() -> (wall: Double, cpu: Double) {
        (Watch.seconds(CLOCK_MONOTONIC), Watch.seconds(CLOCK_PROCESS_CPUTIME_ID))
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
