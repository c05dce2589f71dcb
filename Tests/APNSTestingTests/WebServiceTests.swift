// SPDX-License-Identifier: Apache-2.0

#if CommandLine
import APNSProvider
import APNSProviderHTTP2
import APNSTestKit
import APNSTesting
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Testing

/// Goal: what a web service answers for a notification is what became of it, over an outage and a graceful shutdown: a
/// request that is answered with 200 has arrived once, and none is lost in silence.
///
/// Method: a service of Hummingbird with a client, in a service group; callers that send one request after another; a
/// simulator, which is away for some of them.
@Suite(.timeLimit(.minutes(1))) struct WebServiceTests {
    /// What is known of the requests.
    private struct Record: Sendable {
        var port: Int?
        /// The number of requests that the service has begun to handle.
        var begunCount = 0
        /// The reports of the service, by token.
        var reports: [DeviceToken: DeliveryReport] = [:]
        /// The statuses that callers received; `nil` if the connection ended without one.
        var statuses: [DeviceToken: Int?] = [:]

        func count(of status: Int) -> Int { self.statuses.values.count { $0 == status } }
    }

    private struct Overdue: Error { let record: Record }

    private let record = ObservedValue(Record())

    private func wait(until isMet: @escaping @Sendable (Record) -> Bool) async throws {
        try await self.record.wait(until: isMet) { Overdue(record: $0) }
    }

    /// A service that sends a notification for each request.
    private func application(_ client: PushClient) -> some ApplicationProtocol {
        let router = Router()
        router.post("notify/:token") { [record] _, context -> HTTPResponse.Status in
            let token = try DeviceToken(try context.parameters.require("token"))
            record.change { $0.begunCount += 1 }
            let report = await client.report(of: PushNotification(to: token, APS(alert: "Hello")))
            record.change { $0.reports[token] = report }
            switch report.outcome {
            case .accepted: return report.isPossibleDuplicate ? .accepted : .ok
            case .unsent: return .serviceUnavailable
            default: return .badGateway
            }
        }
        return Application(
            router: router,
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { [record] channel in record.change { $0.port = channel.localAddress?.port } },
            logger: Logger(label: "web") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Sends one request on its own connection; returns the status, and `nil` if there is no answer.
    private static func post(_ token: DeviceToken, port: Int) async throws -> Int? {
        let text = "POST /notify/\(token.hexadecimal) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
        let connection: NIOAsyncChannel<ByteBuffer, ByteBuffer>
        do {
            connection = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try NIOAsyncChannel(wrappingChannelSynchronously: channel)
                    }
                }
        } catch {
            return nil
        }
        let answer = ObservedValue("")
        try? await connection.executeThenClose { input, output in
            try await output.write(ByteBuffer(string: text + "Connection: close\r\n\r\n"))
            for try await bytes in input { answer.change { $0 += String(buffer: bytes) } }
        }
        let words = answer.current.split(separator: " ", maxSplits: 2)
        return words.count > 1 ? Int(words[1]) : nil
    }

    /// Sends requests one after another until the service is gone.
    private func call(_ running: RunningSimulator, port: Int) async throws {
        var isGone = false
        while !isGone {
            let token = running.register()
            let status = try await Self.post(token, port: port)
            self.record.change { $0.statuses.updateValue(status, forKey: token) }
            isGone = status == nil
        }
    }

    private static func configuration(_ listener: SimulatorListener) throws -> PushClientConfiguration {
        let running = try RunningSimulator.current
        return listener == .binary
            ? running.binaryConfiguration { $0.limits.backoff.max = .milliseconds(5) }
            : running.http2Configuration { configuration, _ in configuration.backoff.max = .milliseconds(5) }
    }

    @Test(.runningSimulator, arguments: [SimulatorListener.binary, .http2])
    func `over an outage and a shutdown, each request answered with 200 arrives once, and none is lost`(
        _ listener: SimulatorListener
    ) async throws {
        let running = try RunningSimulator.current
        let callerCount = 4
        let client = try PushClient(try Self.configuration(listener))
        // The services end in reverse order: first the answers, then the client.
        let group = ServiceGroup(
            services: [client, self.application(client)],
            logger: Logger(label: "group") { _ in SwiftLogNoOpLogHandler() }
        )
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            try await self.wait { $0.port != nil }
            let port = try #require(self.record.current.port)
            for _ in 0..<callerCount { tasks.addTask { try await self.call(running, port: port) } }
            try await self.wait { $0.count(of: 200) >= 8 }
            try await running.simulator.withOutage {
                // Each caller has a request that waits for the end of the outage.
                try await self.wait { $0.begunCount - $0.reports.count == callerCount }
            }
            let countThen = self.record.current.count(of: 200)
            try await self.wait { $0.count(of: 200) >= countThen + 8 }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
        let record = self.record.current
        #expect(record.reports.count == record.begunCount, "each request that the service began has its outcome")
        for (token, status) in record.statuses {
            let arrivedCount = running.simulator.receivedCount(of: token)
            let report = record.reports[token]
            switch (status, report?.outcome) {
            case (200, .accepted): #expect(arrivedCount == 1)
            // Each of these is known to have possibly arrived more than once, or not at all.
            case (202, .accepted): #expect(arrivedCount >= 1 && report?.isPossibleDuplicate == true)
            case (502, .indeterminate): #expect(arrivedCount <= 1)
            case (503, .unsent), (nil, nil): #expect(arrivedCount == 0)
            default: Issue.record("\(String(describing: status)): \(String(describing: report)), \(arrivedCount)")
            }
        }
        #expect(record.count(of: 200) >= 16)
        #expect(running.simulator.statistics.processedCount >= record.count(of: 200))
    }
}
#endif
