// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSWire
import ArgumentParser
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// The gateway's listener with a backend that accepts everything immediately. Prints its port, and at the end the same
/// figures as the C sink, so that one can replace the other.
@main
struct BenchListener: AsyncParsableCommand {
    @Option var certificate: String
    @Option var key: String
    @Option var trust: String
    @Option(help: "Number of expected notifications.") var expect: UInt64
    @Option(help: "Maximum TLS version, 1.2 or 1.3.") var tlsMax = "1.2"

    func run() async throws {
        let identity = try TLSIdentity(contentsOf: self.certificate, key: self.key)
        var configuration = BinaryListenerConfiguration(identity: identity, clientTrust: .file(self.trust))
        configuration.port = 0
        configuration.versionMax = self.tlsMax == "1.3" ? .tls1_3 : .tls1_2
        // The same as that of the sink.
        configuration.cipherList = "ECDHE-RSA-AES128-GCM-SHA256:HIGH:!aNULL"
        configuration.shutdownTimeout = .seconds(5)
        let backend = TakingBackend()
        try await Listener(configuration, backend: backend).withRunning { listener in
            print(try await listener.boundAddress.port)
            fflush(nil)
            await backend.waitForClose()
        }
        let (frames, connections) = backend.totals
        guard frames == self.expect else { throw ValidationError("received \(frames) of \(self.expect) notifications") }
        let seconds = Self.cpuSeconds()
        print("{\"frames\": \(frames), \"connections\": \(connections), \"cpu_seconds\": \(seconds)}")
    }

    private static func cpuSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// Accepts and counts everything, and is done when the first provider has closed.
final class TakingBackend: DeliveryBackend {
    private let counts = NIOLockedValueBox((frames: UInt64(0), connections: 0))
    private let closed = AsyncStream.makeStream(of: Void.self)

    var totals: (frames: UInt64, connections: Int) { self.counts.withLockedValue { $0 } }

    func waitForClose() async {
        for await _ in self.closed.stream { return }
    }

    func admit(_ provider: ProviderConnection) -> Admission { .admitted(TakingConnection(backend: self)) }

    fileprivate func close(_ count: UInt64) {
        self.counts.withLockedValue { counts in
            counts.frames += count
            counts.connections += 1
        }
        self.closed.continuation.yield()
    }
}

private final class TakingConnection: DeliveryConnection {
    private let backend: TakingBackend
    private var count: UInt64 = 0

    init(backend: TakingBackend) { self.backend = backend }

    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
        self.count += 1
        return .accepted
    }

    func closed() { self.backend.close(self.count) }
}
