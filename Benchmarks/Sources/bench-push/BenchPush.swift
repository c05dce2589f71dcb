// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSTransport
import APNSWire
import ArgumentParser
import Dispatch
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// Sends the same request many times to an HTTP/2 service, and prints the duration.
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
        var configuration = PushConfiguration(
            endpoint: Endpoint(host: self.host, port: self.port),
            identity: try TLSIdentity(contentsOf: self.certificate, key: self.key),
            trust: .file(self.trust)
        )
        configuration.connectionCount = self.connections
        configuration.streamCountMax = self.streams
        let token = try DeviceToken(self.token)
        let text = String(repeating: "x", count: max(0, self.payload - 20))
        let body = ByteBuffer(string: #"{"aps":{"alert":"\#(text)"}}"#)
        let count = self.count
        let counts = NIOLockedValueBox((accepted: 0, others: [String: Int]()))
        let start = DispatchTime.now().uptimeNanoseconds
        try await RequestClient.withClient(configuration) { client in
            var submitted = 0
            while submitted < count {
                let request = PushRequest(token: token, payload: body, topic: "com.example.app")
                let receipt = client.submit(request) { report in
                    counts.withLockedValue { counts in
                        if case .accepted = report.outcome {
                            counts.accepted += 1
                        } else {
                            counts.others[report.outcome.name, default: 0] += 1
                        }
                    }
                }
                switch receipt {
                case .taken: submitted += 1
                case .full:
                    await withCheckedContinuation { continuation in client.whenRoom { continuation.resume() } }
                case .ended: return
                }
            }
        }
        let seconds = Double(DispatchTime.now().uptimeNanoseconds - start) / 1e9
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let cpu =
            Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
        let outcomes = counts.withLockedValue { $0.others.merging(["accepted": $0.accepted]) { $1 } }
            .sorted { $0.key < $1.key }
            .map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
        print(
            "{\"count\":\(count),\"wall_seconds\":\(seconds),\"cpu_seconds\":\(cpu),"
                + "\"max_rss_kib\":\(usage.ru_maxrss),\"outcomes\":{\(outcomes)}}"
        )
    }
}
