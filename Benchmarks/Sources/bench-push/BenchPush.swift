// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSTransport
import APNSWire
import ArgumentParser
import Dispatch
import Glibc
import NIOCore
import OpenSSLTLS

/// Sends the same notification many times to an HTTP/2 service, and prints the duration.
@main
struct BenchPush: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "bench-push")

    @Option var host = "127.0.0.1"
    @Option var port: Int
    @Option var certificate: String
    @Option var key: String
    @Option var trust: String
    @Option var count = 1_000_000
    @Option var connections = 1
    @Option var streams = 100
    @Option var token = String(repeating: "ab", count: 32)
    @Option(help: "Payload length in bytes.") var payload = 100

    func run() async throws {
        var configuration = HTTP2Configuration(
            endpoint: HTTP2Endpoint(host: self.host, port: self.port),
            identity: try TLSIdentity(contentsOf: self.certificate, key: self.key),
            trust: .file(self.trust)
        )
        configuration.connectionCount = self.connections
        configuration.streamCountMax = self.streams
        let token = try DeviceToken(self.token)
        let text = String(repeating: "x", count: max(0, self.payload - 20))
        let body = ByteBuffer(string: #"{"aps":{"alert":"\#(text)"}}"#)
        let notification = PushNotification(token: token, payload: body)
        var client = PushClientConfiguration.http2(configuration, RequestRules(topic: "com.example.app"))
        client.payloadChecks = .none
        let start = DispatchTime.now().uptimeNanoseconds
        let rows = Rows(count: self.count, notification: notification)
        let counts = try await PushClient.withClient(client) { client in
            var counts: [String: Int] = [:]
            for try await record in client.send(rows) { counts[record.outcome.name, default: 0] += 1 }
            return counts
        }
        let seconds = Double(DispatchTime.now().uptimeNanoseconds - start) / 1e9
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let cpu =
            Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
        let outcomes = counts.sorted { $0.key < $1.key }
            .map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
        print(
            "{\"count\":\(self.count),\"wall_seconds\":\(seconds),\"cpu_seconds\":\(cpu),"
                + "\"max_rss_kib\":\(usage.ru_maxrss),\"outcomes\":{\(outcomes)}}"
        )
    }
}

/// The same notification many times.
private struct Rows: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let count: Int
    let notification: PushNotification
    private var index = 0

    init(count: Int, notification: PushNotification) {
        self.count = count
        self.notification = notification
    }

    func makeAsyncIterator() -> Rows { self }

    mutating func next() async -> (id: Int, notification: PushNotification)? {
        guard self.index < self.count else { return nil }
        defer { self.index += 1 }
        return (self.index, self.notification)
    }
}
