// SPDX-License-Identifier: Apache-2.0

// Sends to tokens until it has 100 outcomes, and prints how many were read.
// Arguments: host, port, certificate, key, trusted CA, tokens.

// snippet.show
import APNSProvider

/// Sends until `isStopped`, and returns the identifiers of the rows that have an outcome.
nonisolated(nonsending) func send<Rows: AsyncSequence & Sendable>(
    _ rows: Rows,
    _ client: PushClient,
    until isStopped: () -> Bool
) async throws -> [Int] where Rows.Element == (id: Int, notification: PushNotification) {
    let records = client.send(rows)
    var done: [Int] = []
    for try await record in records {
        done.append(record.id)
        // From here on, only what was already read is sent. Another task may call this, too.
        if isStopped() { records.finishReading() }
    }
    return done
}
// snippet.hide

let arguments = CommandLine.arguments
guard arguments.count > 6, let port = Int(arguments[2]) else {
    print("usage: EndABatch HOST PORT CERTIFICATE KEY TRUST TOKEN...")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
let trust = TLSTrust.file(arguments[5])
let configuration = PushClientConfiguration.binary(host: arguments[1], port: port, identity: identity, trust: trust)
let tokens = try arguments[6...].map { try DeviceToken($0) }
try await PushClient.withClient(configuration) { client in
    let rows = AsyncStream<(id: Int, notification: PushNotification)> { continuation in
        for (number, token) in tokens.enumerated() {
            continuation.yield((number, PushNotification(to: token, APS(alert: "Hello"))))
        }
        continuation.finish()
    }
    var count = 0
    let done = try await send(rows, client) {
        count += 1
        return count >= 100
    }
    print("\(done.count) of \(tokens.count)")
}
