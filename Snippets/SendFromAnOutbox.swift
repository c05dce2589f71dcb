// SPDX-License-Identifier: Apache-2.0

// Sends notifications without an outcome, and stores outcomes on disk, so that a killed process can resume.
// Arguments: host, port, certificate, key, trusted CA, journal, number sent as a sequence, number sent one by one.

// snippet.show
import APNSProvider
import Glibc

/// A placeholder for your database: a change is on disk when the call returns.
actor Outbox {
    private let file: CInt

    init(_ file: CInt) { self.file = file }

    /// Records that a notification is about to be sent.
    ///
    /// If the process dies before `end(_:_:)`, it is unknown whether it was sent: if it is sent again, it may arrive
    /// twice.
    func begin(_ id: Int) throws { try self.append("sent \(id)\n") }

    /// Records the outcome.
    func end(_ id: Int, _ report: DeliveryReport) throws {
        try self.append("told \(id) \(report.outcome.name) \(report.isPossibleDuplicate ? "twice" : "once")\n")
    }

    // snippet.hide
    func append(_ line: String) throws {
        let bytes = Array(line.utf8)
        guard write(self.file, bytes, bytes.count) == bytes.count, fdatasync(self.file) == 0 else {
            throw CancellationError()
        }
    }
    // snippet.show
}

func send(_ open: AsyncStream<Int>, from outbox: Outbox, over client: PushClient) async throws {
    let rows = open.map { id in
        try await outbox.begin(id)
        return (id: id, notification: try notification(id))
    }
    for try await record in client.send(rows) { try await outbox.end(record.id, record.report) }
}

func sendOneByOne(_ open: [Int], from outbox: Outbox, over client: PushClient) async throws {
    for id in open {
        try await outbox.begin(id)
        try await outbox.end(id, await client.report(of: try notification(id)))
    }
}
// snippet.hide

func notification(_ id: Int) throws -> PushNotification {
    let number = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: id >> $0) }
    return PushNotification(to: try DeviceToken(bytes: Array(repeating: 0xB0, count: 28) + number), APS(alert: "Hello"))
}

/// Returns the notifications without an outcome in a journal, and whether its last line is complete.
func findOpen(_ file: CInt, _ count: Int) -> (open: [Int], isWhole: Bool) {
    var (text, part) = ([UInt8](), [UInt8](repeating: 0, count: 65_536))
    while case let count = read(file, &part, part.count), count > 0 { text += part[..<count] }
    var told: Set<Int> = []
    for line in String(decoding: text, as: UTF8.self).split(separator: "\n") where line.hasPrefix("told ") {
        let words = line.split(separator: " ")
        if words.count == 4, ["once", "twice"].contains(words[3]), let id = Int(words[1]) { told.insert(id) }
    }
    return ((0..<count).filter { !told.contains($0) }, text.isEmpty || text.last == UInt8(ascii: "\n"))
}

let arguments = CommandLine.arguments
guard arguments.count == 9, let port = Int(arguments[2]), let sequenceCount = Int(arguments[7]),
    let singleCount = Int(arguments[8])
else {
    print("usage: SendFromAnOutbox HOST PORT CERTIFICATE KEY TRUST JOURNAL SEQUENCE-COUNT SINGLE-COUNT")
    throw CancellationError()
}
let identity = try TLSIdentity(contentsOf: arguments[3], key: arguments[4])
let configuration = PushClientConfiguration.binary(
    host: arguments[1],
    port: port,
    identity: identity,
    trust: .file(arguments[5])
) {
    // Short times, so that much happens in a test.
    $0.limits.verificationDelay = .milliseconds(20)
    $0.limits.verificationIntervalMin = .milliseconds(50)
    $0.limits.backoff.max = .milliseconds(200)
    $0.limits.responseTimeout = .seconds(1)
}
let file = open(arguments[6], O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
let (openIDs, isWhole) = findOpen(file, sequenceCount + singleCount)
let outbox = Outbox(file)
try await outbox.append((isWhole ? "" : "\n") + "run \(getpid())\n")
let pending = openIDs.filter { $0 < sequenceCount }
let singles = openIDs.filter { $0 >= sequenceCount }
try await PushClient.withClient(configuration) { client in
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
            async let sending: Void = send(stream, from: outbox, over: client)
            for (index, id) in pending.enumerated() {
                // Slow enough that a kill interrupts the batch.
                if index % 10 == 9 { try await Task.sleep(for: .milliseconds(10)) }
                continuation.yield(id)
            }
            continuation.finish()
            try await sending
        }
        for worker in 0..<4 {
            let own = singles.filter { $0 % 4 == worker }
            group.addTask { try await sendOneByOne(own, from: outbox, over: client) }
        }
        try await group.waitForAll()
    }
}
print("all have their outcome")
