// SPDX-License-Identifier: Apache-2.0

// Sends to tokens until it has 100 outcomes, and prints how many were read; then again, until its task is cancelled.
// Arguments: host, port, certificate, key, trusted CA, tokens.

// snippet.finish
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
// snippet.end

// snippet.cancel
/// Sends until its task is cancelled, and stores what became of each row that was read.
nonisolated(nonsending) func sendUntilCancelled<Rows: AsyncSequence & Sendable>(
    _ rows: Rows,
    _ client: PushClient,
    store: (Int, DeliveryOutcome) -> Void
) async throws where Rows.Element == (id: Int, notification: PushNotification) {
    do {
        for try await record in client.send(rows) { store(record.id, record.outcome) }
    } catch is CancellationError {
        // Every row that was read is stored, as accepted, unsent or indeterminate. The others were not sent.
    }
}
// snippet.end

let arguments = CommandLine.arguments
guard arguments.count > 6, let port = Int(arguments[2]) else {
    print("usage: EndABatch HOST PORT CERTIFICATE KEY TRUST TOKEN...")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
let trust = TLSTrust.file(arguments[5])
let configuration = PushClientConfiguration.binary(host: arguments[1], port: port, identity: identity, trust: trust)
let tokens = try arguments[6...].map { try DeviceToken($0) }

/// A row for each token, and the means to end the rows.
func makeRows() -> (
    rows: AsyncStream<(id: Int, notification: PushNotification)>,
    end: AsyncStream<(id: Int, notification: PushNotification)>.Continuation
) {
    let (rows, end) = AsyncStream<(id: Int, notification: PushNotification)>.makeStream()
    for (number, token) in tokens.enumerated() {
        end.yield((number, PushNotification(to: token, APS(alert: "Hello"))))
    }
    return (rows, end)
}

try await PushClient.withClient(configuration) { client in
    let (rows, end) = makeRows()
    end.finish()
    var count = 0
    let done = try await send(rows, client) {
        count += 1
        return count >= 100
    }
    print("\(done.count) of \(tokens.count)")

    // These rows do not end: the task waits for more of them until it is cancelled.
    let (more, endOfMore) = makeRows()
    let (outcomes, stored) = AsyncStream<DeliveryOutcome>.makeStream()
    let sending = Task { try await sendUntilCancelled(more, client) { stored.yield($1) } }
    var storedCount = 0
    for await outcome in outcomes where outcome == .accepted {
        storedCount += 1
        if storedCount == tokens.count { break }
    }
    sending.cancel()
    try await sending.value
    endOfMore.finish()
    print("\(storedCount) of \(tokens.count) before the cancellation")
}
