// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Foundation
import Synchronization

@testable import TokenStore

/// What a PostgreSQL server answers.
///
/// A server in the same process takes its answers from the input: rows with any number of columns and values of any
/// length, errors, and bytes that are no messages.
enum DatabaseFuzz {
    /// The first byte selects what is asked; the rest is the answers.
    static func run(_ bytes: [UInt8]) throws {
        guard let address = AnsweringServer.shared?.address, let mode = bytes.first else { return }
        AnsweringServer.shared?.script.withLock { $0 = FuzzInput(Array(bytes.dropFirst())) }
        switch mode % 4 {
        case 0: self.queue(address)
        case 1: self.prune(address, mode)
        case 2: self.list(address)
        default: try self.gateway(address)
        }
    }

    private static func queue(_ address: String) {
        guard let queue = try? QueueDatabase(address) else { return }
        let scope = QueueScope(topic: "com.example.app", environment: .production, payloadByteCountMax: 4096)
        _ = try? queue.claim(1, scope, after: QueueChunkKey(batch: 0, number: 0), countMax: 4, rules: QueueRules())
        _ = try? queue.progress(scope)
        _ = try? queue.register(host: "host", process: 1, lease: .seconds(10))
        _ = try? queue.renew(1, lease: .seconds(10), proved: 1, rate: 1)
        _ = try? queue.isEmpty(scope)
        _ = try? queue.batchesTooLong(scope)
        _ = try? queue.status(batchCountMax: 5).map(\.lines)
        _ = try? queue.totals()
        _ = try? queue.verify(differenceCountMax: 5)
        _ = try? queue.finishBatches()
        _ = try? queue.cancel(1)
    }

    private static func prune(_ address: String, _ mode: UInt8) {
        guard let list = self.purgeList else { return }
        let registration: TokenTableRules.Registration = mode & 4 == 0 ? .ignored : .registered(column: "seen")
        var rules = TokenTableRules(registration: registration)
        if mode & 8 != 0 { rules.topic = .column("topic") }
        if mode & 16 != 0 { rules.action = .deactivate(column: "active") }
        var application = TokenTableApplication(path: address, table: "devices", tokenColumn: "token", rules: rules)
        application.fractionMax = 1
        application.pageRowCount = 3
        // Pages without an end would be a table without an end.
        var pageCount = 0
        _ = try? application.run(list, counted: { _ in }) { _ in
            pageCount += 1
            return pageCount < 1000
        }
    }

    private static let purgeList: PurgeList? = {
        let list = try? PurgeList(path: FileFuzz.folder + "/dead.sqlite")
        _ = try? list?.record([
            PurgeEntry(
                topic: "com.example.app",
                environment: .production,
                token: [0xAA],
                failedAt: 1_700_000_000,
                firstSeen: 1_700_000_000,
                source: "fuzz"
            )
        ])
        return list
    }()

    private static func list(_ address: String) {
        guard let list = try? PurgeList(path: address, isMade: false) else { return }
        defer { list.close() }
        _ = try? list.entries { _ in }
        _ = try? list.statistics()
        _ = try? list.contains(token: [1], topic: "com.example.app", environment: .production)
        _ = try? list.knownScopes()
        _ = try? list.warning()
        _ = try? list.checkIntegrity()
    }

    private static func gateway(_ address: String) throws {
        let database = PostgreSQLGatewayDatabase(address, process: "1")
        let list = TokenScope(topic: "com.example.app", environment: .production)
        guard let key = ResendKey(bytes: [UInt8](repeating: 1, count: ResendKey.byteCount)) else { return }
        let resend = ExpectedResend(key: key, place: .init(response: 1, index: 2))
        let changes: [SharedStoreQueue.Change] = [
            .claim(resend, provider: "provider"), .load(provider: "provider"), .list(list),
        ]
        let entries = changes.enumerated().map { number, change in
            SharedStoreQueue.Entry(number: UInt64(number), change: change)
        }
        _ = try? database.apply(entries, nil)
        var count = 0
        _ = try? database.changes(since: "0") { _, _, _ in count += 1 }
        try require(count < 10_000, "no more changes than rows")
    }
}

/// A server of PostgreSQL's protocol on a socket of the file system, which answers from a script.
private final class AnsweringServer: Sendable {
    static let shared = AnsweringServer()

    let address: String
    let script = Mutex(FuzzInput([]))
    private let listener: CInt

    private init?() {
        let folder = FileFuzz.folder
        let listener = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        let path = folder + "/.s.PGSQL.5432"
        unlink(path)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let isBound = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        self.address = "postgresql:///fuzz?host=" + folder.replacing("/", with: "%2F") + "&user=fuzz&sslmode=disable"
        guard isBound, listen(self.listener, 16) == 0 else { return nil }
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(self.listener, nil, nil)
                // libFuzzer has an alarm.
                guard connection >= 0 else {
                    if errno == EINTR { continue }
                    return
                }
                Thread.detachNewThread { [self] in
                    self.serve(connection)
                    close(connection)
                }
            }
        }
    }

    private func serve(_ connection: CInt) {
        guard self.message(connection, hasType: false) != nil else { return }
        var start = Self.message("R", [0, 0, 0, 0])
        for (name, value) in [("server_version", "16.0"), ("client_encoding", "UTF8")] {
            start += Self.message("S", Array(name.utf8) + [0] + Array(value.utf8) + [0])
        }
        guard self.send(start + Self.message("K", [0, 0, 0, 1, 0, 0, 0, 2]) + Self.ready, connection) else { return }
        while let (type, body) = self.message(connection, hasType: true) {
            var answer: [UInt8]? = []
            switch type {
            // A statement without parameters: its text decides.
            case UInt8(ascii: "Q"):
                let isCopy = body.starts(with: Array("COPY".utf8))
                answer = isCopy ? Self.message("G", [1, 0, 0]) : Self.message("C", Array("BEGIN\0".utf8)) + Self.ready
            case UInt8(ascii: "c"): answer = Self.message("C", Array("COPY 1\0".utf8)) + Self.ready
            case UInt8(ascii: "S"): answer = self.script.withLock { Self.answer(&$0) }
            case UInt8(ascii: "X"): return
            default: continue
            }
            guard let answer, self.send(answer, connection) else { return }
        }
    }

    private static let ready = message("Z", [UInt8(ascii: "I")])

    private static func message(_ type: Unicode.Scalar, _ body: [UInt8]) -> [UInt8] {
        [UInt8(ascii: type)] + self.bytes(UInt32(body.count + 4)) + body
    }

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    /// The answer to a statement.
    private static func answer(_ script: inout FuzzInput) -> [UInt8] {
        let begin = self.message("1", []) + self.message("2", [])
        let mode = script.byte()
        switch mode >> 5 {
        case 6:
            let state = script.bytes(5).map { 0x30 + $0 % 43 }
            let fields = Array("SERROR\0C".utf8) + state + Array("\0Mmessage\0\0".utf8)
            return begin + self.message("E", fields) + self.ready
        // Whatever it is, and then nothing more.
        case 7: return begin + script.bytes(Int(script.byte())) + [0]
        default: break
        }
        let (columnCount, rowCount) = (Int(mode & 15), Int(script.byte() % 8))
        var description = self.bytes(UInt16(columnCount))
        for column in 0..<columnCount {
            // Its name, no table, the type bytea, of any size, without a modifier, in binary form.
            description +=
                Array("c\(column)\0".utf8) + [0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
            description += [0, 1]
        }
        var answer = begin + self.message("T", description)
        for _ in 0..<rowCount where !script.isEmpty {
            var row = self.bytes(UInt16(columnCount))
            for _ in 0..<columnCount {
                let count = script.byte()
                guard count < 0xF0 else {
                    row += self.bytes(Int32(-1))
                    continue
                }
                let value = script.bytes(Int(count))
                row += self.bytes(Int32(value.count)) + value
            }
            answer += self.message("D", row)
        }
        return answer + self.message("C", Array("SELECT \(rowCount)\0".utf8)) + self.ready
    }

    // MARK: Input and output

    private func message(_ connection: CInt, hasType: Bool) -> (type: UInt8, body: [UInt8])? {
        guard let head = self.receive(connection, hasType ? 5 : 4) else { return nil }
        let count = head.suffix(4).reduce(0) { $0 << 8 | Int($1) } - 4
        guard count >= 0, let body = self.receive(connection, count) else { return nil }
        return (head[0], body)
    }

    private func receive(_ connection: CInt, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let read = bytes.withUnsafeMutableBytes {
                recv(connection, $0.baseAddress.map { $0 + filled }, count - filled, 0)
            }
            if read < 0, errno == EINTR { continue }
            guard read > 0 else { return nil }
            filled += read
        }
        return bytes
    }

    /// Sends an answer; one that does not end as the protocol requires ends the connection.
    private func send(_ bytes: [UInt8], _ connection: CInt) -> Bool {
        let sent = bytes.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
        return sent == bytes.count
            && (bytes.suffix(Self.ready.count).elementsEqual(Self.ready) || bytes.first == UInt8(ascii: "G"))
    }
}
