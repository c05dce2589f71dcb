// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSCertificates
import APNSWire
import Batch
import Glibc
import Logging
import NIOCore
import NIOEmbedded
import NIOTLS
import OpenSSLTLS
import TokenStore

/// A path through the library that can run several times.
protocol Path {
    /// The number of operations of one run, such as notifications.
    var count: Int { get }
    func run() throws
}

/// The tokens and payloads of all paths.
enum Content {
    static let payload = Array(
        #"{"aps":{"alert":"You have 3 new messages","badge":3,"sound":"default"},"id":1234567890}"#.utf8
    )

    static func token(_ number: Int) throws -> DeviceToken {
        var bytes = [UInt8](repeating: 0xA5, count: 24)
        unsafe withUnsafeBytes(of: UInt64(number).bigEndian) { bytes += unsafe $0 }
        return try DeviceToken(bytes: bytes)
    }

    /// Frames of command 1 with the identifiers from 1.
    static func frames(_ count: Int) throws -> ByteBuffer {
        var frames = ByteBuffer()
        for number in 1...count {
            let frame = NotificationFrame(
                token: try Self.token(number),
                payload: ByteBuffer(bytes: Self.payload),
                expiry: 4_000_000_000,
                identifier: UInt32(number),
                command: .enhanced
            )
            try frame.write(into: &frames)
        }
        return frames
    }
}

/// Writes frames into memory.
final class EncodePath: Path {
    let count = 100_000
    private let token: DeviceToken
    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)

    init() throws { self.token = try Content.token(1) }

    func run() throws {
        var left = self.count
        unsafe Content.payload.withUnsafeBytes { payload in
            while left > 0 {
                guard var encoder = unsafe FrameEncoder(writingInto: self.memory) else { return }
                while left > 0,
                    unsafe encoder.append(
                        token: self.token,
                        payload: payload,
                        expiry: 4_000_000_000,
                        priority: nil,
                        identifier: UInt32(left),
                        command: .enhanced
                    )
                { left -= 1 }
            }
        }
    }
}

/// Reads frames.
final class ParsePath: Path {
    let count = 100_000
    private let frames: ByteBuffer
    private let limits = FrameLimits()

    init() throws { self.frames = try Content.frames(self.count) }

    func run() throws {
        try unsafe self.frames.withUnsafeReadableBytes { bytes in
            var layout = FrameLayout(command: .simple)
            var offset = 0
            while offset < bytes.count {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[offset...])
                guard try unsafe layout.read(rest, limits: self.limits) else { throw Failure("incomplete") }
                offset += layout.byteCount
            }
        }
    }
}

/// Determines the outcomes of notifications: in each window one is rejected, and the rest is sent again and verified.
final class SessionPath: Path {
    let count = 1_000_000

    func run() throws {
        var limits = BinaryLimits()
        limits.windowCount = 1000
        var session = ProviderSession(limits: limits)
        var (now, written, accepted) = (Duration.zero, 0, 0)
        while true {
            switch session.step(now: now) {
            case .connect(let number): session.connected(number, now: now)
            case .write(let number, let numbers, let firstIdentifier):
                let count = min(100, numbers.count, self.count - Int(numbers.lowerBound))
                guard count > 0 else {
                    session.supply(.ended)
                    continue
                }
                session.wrote(UInt64(count), now: now)
                session.sent(number, before: numbers.lowerBound + UInt64(count))
                written += count
                let identifier = firstIdentifier + UInt32(count) - 1
                if written % 5000 == 0 { self.answer(.invalidToken, identifier, on: number, &session) }
            case .probe(let number, let identifier): self.answer(.missingDeviceToken, identifier, on: number, &session)
            case .close(let number): session.closed(number, now: now, jitter: 0)
            case .wait(let deadline):
                guard let deadline else { throw Failure("the session waits") }
                now = deadline
            case .finish(let ending):
                for settlement in session.takeSettlements() { accepted += settlement.numbers.count }
                guard ending == .completed, accepted == self.count else { throw Failure("\(ending), \(accepted)") }
                return
            }
            for settlement in session.takeSettlements() { accepted += settlement.numbers.count }
        }
    }
}

extension SessionPath {
    private func answer(
        _ status: ErrorResponse.Status,
        _ identifier: UInt32,
        on number: ConnectionNumber,
        _ session: inout ProviderSession
    ) {
        session.received(ErrorResponse(status: status, identifier: identifier), on: number, now: .zero, jitter: 0)
    }
}

/// Submits notifications to a client's queue, takes their frames, and reports their outcomes.
final class ClientPath: Path {
    let count = 100_000
    private let queue: SubmissionQueue
    private let receiver = Receiver()
    private var store = FrameStore()
    private var nextNumber: UInt64 = 0

    private final class Receiver: SubmissionReceiver, @unchecked Sendable {
        var settledCount = 0

        func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) { self.settledCount += keys.count }
    }

    init() throws {
        let authority = try CertificateAuthority()
        let tls = TLSConfiguration.client(
            identity: try authority.issueClient(topic: "com.example.app").identity,
            trust: authority.trust
        )
        self.queue = SubmissionQueue(
            BinaryConfiguration(endpoint: Endpoint(host: "localhost", port: 2195), tls: tls),
            observer: DeliveryObserver(.notifications),
            logger: Logger(label: "instructions") { _ in SwiftLogNoOpLogHandler() },
            eventLoop: EmbeddedEventLoop()
        )
    }

    func run() throws {
        let notification = PushNotification(token: try Content.token(1), payload: ByteBuffer(bytes: Content.payload))
        self.receiver.settledCount = 0
        for window in 0..<self.count / 100 {
            for index in 0..<100 {
                let key = UInt64(window * 100 + index)
                guard case .submitted = self.queue.enqueue(notification, self.receiver, key: key) else {
                    throw Failure("not submitted")
                }
            }
            let (_, count, _) = self.store.fetch(
                from: self.queue,
                number: self.nextNumber,
                countMax: 100,
                command: .enhanced,
                identifier: UInt32(truncatingIfNeeded: self.nextNumber)
            )
            guard count == 100 else { throw Failure("\(count) frames") }
            let numbers = self.nextNumber..<(self.nextNumber + 100)
            self.store.settle(Settlement(numbers: numbers, report: DeliveryReport(.accepted)), to: self.queue)
            self.nextNumber += 100
        }
        guard self.receiver.settledCount == self.count else { throw Failure("\(self.receiver.settledCount) settled") }
    }
}

/// Reads lines of JSON, and checks their payloads.
final class ReadPath: Path {
    let count = 20_000
    private let text: [UInt8]

    init() throws {
        let payload = String(decoding: Content.payload, as: UTF8.self)
        self.text = try (1...20_000).flatMap { number in
            "{\"token\":\"\(try Content.token(number).hexadecimal)\",\"id\":\"\(number)\",\"payload\":\(payload)}\n"
                .utf8
        }
    }

    func run() throws {
        var reader = try BatchReader(format: .jsonLines, options: BatchOptions(now: 1_700_000_000))
        var record = BatchRecord()
        var (offset, recordCount) = (0, 0)
        while true {
            switch reader.next(&record) {
            case .record: recordCount += 1
            case .needMore:
                unsafe reader.fill { memory in
                    let count = min(memory.count, self.text.count - offset)
                    unsafe memory.copyBytes(from: self.text[offset..<offset + count])
                    offset += count
                    return count
                }
            case .end:
                guard recordCount == self.count else { throw Failure("\(recordCount) records") }
                return
            default: throw Failure("\(String(describing: reader.problem))")
            }
        }
    }
}

/// Writes outcomes to a journal and to results.
final class JournalPath: Path {
    let count = 20_000
    private let folder: String
    private let token: DeviceToken
    private var runCount = 0

    init() throws {
        self.folder = try makeFolder()
        self.token = try Content.token(1)
    }

    func run() throws {
        self.runCount += 1
        let lineCount = UInt64(self.count)
        let journal = try SendJournal(path: "\(self.folder)/journal\(self.runCount)", input: "batch") { lineCount }
        var results = try SendResults(
            path: "\(self.folder)/results\(self.runCount)",
            isOnlyExceptions: false,
            journal: journal,
            retriesIndeterminate: false
        )
        for line in 1...lineCount {
            let outcome = line % 100 == 0 ? LineOutcome(.rejected, status: 8) : LineOutcome(.accepted)
            let result = LineResult(line, outcome, attempts: 1)
            unsafe withUnsafeBytes(of: line) { unsafe results.write(result, id: $0, token: self.token) }
        }
        try results.finish(isComplete: true, lastGivenLine: lineCount)
    }

    deinit { removeFolder(self.folder) }
}

/// Receives notifications on a connection of the gateway, and delivers them to a service that accepts each at once.
final class GatewayPath: Path {
    let count = 20_000
    private let frames: ByteBuffer
    private let provider: TLSIdentity
    private let listener: BinaryListenerConfiguration
    private let loop = EmbeddedEventLoop()
    private let backend: HTTP2Backend
    private let logger = Logger(label: "instructions") { _ in SwiftLogNoOpLogHandler() }

    private struct Service: Upstream {
        var hasRoom: Bool { true }

        func send(_ request: PushRequest, onResponse: @escaping @Sendable (DeliveryOutcome, Duration?) -> Void) {
            onResponse(.accepted, .milliseconds(1))
        }
    }

    private struct NoRecorder: FeedbackRecorder {
        func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) { onKept() }

        func forget(_ token: DeviceToken, in list: TokenScope) {}
    }

    init() throws {
        self.frames = try Content.frames(self.count)
        let authority = try CertificateAuthority()
        self.provider = try authority.issueClient(topic: "com.example.app").identity
        self.listener = BinaryListenerConfiguration(
            identity: try authority.issueServer().identity,
            clientTrust: authority.trust
        )
        let configuration = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(verifier: try CertificateVerifier(authorities: authority.certificatePEM)),
            environment: .sandbox,
            upstream: Service()
        )
        self.backend = HTTP2Backend(
            [configuration],
            recorder: NoRecorder(),
            eventLoopGroup: self.loop,
            logger: self.logger
        )
    }

    func run() throws {
        let handler = Listener.binaryHandler(
            on: self.loop,
            certificate: self.provider.certificate,
            self.listener,
            backend: self.backend,
            logger: self.logger
        )
        let channel = EmbeddedChannel(loop: self.loop)
        try channel.pipeline.syncOperations.addHandlers(handler)
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 2195), promise: nil)
        channel.pipeline.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: nil))
        self.loop.run()
        var frames = self.frames
        while let bytes = frames.readSlice(length: min(16_384, frames.readableBytes)), bytes.readableBytes > 0 {
            channel.pipeline.fireChannelRead(bytes)
            channel.pipeline.fireChannelReadComplete()
            self.loop.run()
        }
        let settledCount = self.backend.deliveryCounts.settled
        guard settledCount > 0, settledCount % UInt64(self.count) == 0 else { throw Failure("\(settledCount) settled") }
        _ = try channel.finish(acceptAlreadyClosed: true)
    }
}

/// Records dead tokens in a purge list, and looks them up.
final class PurgePath: Path {
    let count = 500
    private let folder: String
    private var runCount = 0

    init() throws { self.folder = try makeFolder() }

    func run() throws {
        self.runCount += 1
        let list = try PurgeList(path: "\(self.folder)/list\(self.runCount)")
        let entries = try (1...self.count).map { number in
            PurgeEntry(
                topic: "com.example.app",
                environment: .production,
                token: try Content.token(number).bytes,
                failedAt: Timestamp(secondsSince1970: 1_700_000_000 + Int64(number)),
                firstSeen: Timestamp(secondsSince1970: 1_700_000_000),
                source: "feedback"
            )
        }
        _ = try list.record(entries)
        for entry in entries {
            guard try list.contains(token: entry.token, topic: entry.topic, environment: entry.environment) else {
                throw Failure("a token is missing")
            }
        }
        list.close()
    }

    deinit { removeFolder(self.folder) }
}

struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

private func makeFolder() throws -> String {
    var template = Array("\(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")/instructions.XXXXXX".utf8CString)
    guard
        unsafe template.withUnsafeMutableBufferPointer({ unsafe $0.baseAddress.flatMap { unsafe mkdtemp($0) } }) != nil
    else { throw Failure("no folder: \(String(cString: strerror(errno)))") }
    return String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
}

private func removeFolder(_ path: String) {
    for run in 1...2 {
        for name in ["journal", "results", "list"] {
            for suffix in ["", "-wal", "-shm", "-journal"] { unlink("\(path)/\(name)\(run)\(suffix)") }
        }
    }
    rmdir(path)
}
