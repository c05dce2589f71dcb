// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Foundation
import PostgreSQL
import Synchronization

@testable import TokenStore

/// What a PostgreSQL server answers.
///
/// A server in the same process takes its answers from the input: rows with any number of columns and values of any
/// length, errors, and bytes that are no messages.
enum DatabaseFuzz {
    /// The first byte selects what is asked; the rest is the answers.
    static func run(_ bytes: [UInt8]) throws {
        guard let server = AnsweringServer.shared, let mode = bytes.first else { return }
        var input = FuzzInput(Array(bytes.dropFirst()))
        guard mode & 0x80 == 0 else { return self.connection(server, mode, &input) }
        server.begin(.statements, input)
        switch mode % 4 {
        case 0: self.queue(server.address)
        case 1: self.prune(server.address, mode)
        case 2: self.list(server.address)
        default: try self.gateway(server.address)
        }
    }

    // MARK: Connections

    /// The most calls of one input.
    private static let callCountMax = 8

    /// The input begins with the time limit, where there is one.
    private static func connection(_ server: AnsweringServer, _ mode: UInt8, _ input: inout FuzzInput) {
        if mode % 4 == 0 {
            let address = String(decoding: input.all(), as: UTF8.self)
            if PostgreSQLConnection.isAddress(address) { _ = try? PostgreSQLConnection.check(address) }
            return
        }
        // Most are short, since a server that does not answer takes all of it; the longest are enough for any answer.
        let limit = Int(input.byte())
        let timeout = Duration.milliseconds(limit < 0xF0 ? 1 + limit / 8 : limit)
        switch mode % 4 {
        case 1:
            server.begin(.calls, input)
            self.load(server.address, timeout)
        case 2:
            let calls = input.bytes(upTo: 0).prefix(self.callCountMax)
            server.begin(.calls, input)
            guard let connection = try? PostgreSQLConnection(server.address, timeout: timeout) else { return }
            for call in calls { guard (try? self.call(call, connection)) != nil else { return } }
        default:
            server.begin(mode & 4 == 0 ? .opening : .silentOpening, input)
            let connection = try? PostgreSQLConnection(server.address, timeout: timeout)
            _ = try? connection?.query("SELECT")
        }
    }

    private static func load(_ address: String, _ timeout: Duration) {
        guard let queue = try? QueueDatabase(address, timeout: timeout, isNew: true) else { return }
        var chunk = QueueChunkContents()
        guard let token = try? DeviceToken(bytes: [1]) else { return }
        chunk.append(line: 1, token: token, id: [], payload: nil as [UInt8]?, expiry: nil, priority: nil)
        guard (try? queue.create()) != nil,
            let batch = try? queue.begin(.init(topic: "com.example.app", environment: .production)),
            (try? queue.add([chunk], to: batch, from: 0)) != nil
        else { return }
        _ = try? queue.makeReady(batch, payloadByteCountMax: 4096, badLineCount: 0)
    }

    private static func call(_ call: UInt8, _ connection: PostgreSQLConnection) throws {
        let number = Int(call >> 2)
        switch call % 4 {
        case 0:
            let result = try connection.query("SELECT $1", ["\(number)"])
            _ = (0..<result.columnCount).map { result.name(ofColumn: $0) }
            for row in 0..<result.count {
                for column in 0..<result.columnCount where !result.isNull(row, column) {
                    _ = (result.text(row, column), result.integer(row, column), result.number(row, column))
                    _ = result.isTrue(row, column)
                }
            }
            _ = result.changedCount
        case 1: try connection.execute("LISTEN fuzz")
        case 2:
            // More than the buffers of the socket.
            var rows = PostgreSQLRows(columnCount: 1)
            for _ in 0..<number {
                rows.begin()
                rows.add([UInt8](repeating: 7, count: 64 << 10))
            }
            try connection.copy("COPY fuzz FROM STDIN (FORMAT binary)", rows)
        default: _ = try connection.awaitNotification(within: .milliseconds(number))
        }
    }

    // MARK: Statements

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

    /// What the script has answers to.
    enum Form { case statements, calls, opening, silentOpening }

    let address: String
    private let form = Mutex(Form.statements)
    private let script = Mutex(FuzzInput([]))
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

    /// Sets the script for the sessions that are opened from now on.
    func begin(_ form: Form, _ script: FuzzInput) {
        self.form.withLock { $0 = form }
        self.script.withLock { $0 = script }
    }

    private func serve(_ connection: CInt) {
        guard self.message(connection, hasType: false) != nil else { return }
        let form = self.form.withLock { $0 }
        guard form == .statements || form == .calls else {
            guard self.send(self.script.withLock { $0.all() }, connection), form == .silentOpening else { return }
            while let message = self.message(connection, hasType: true), message.type != UInt8(ascii: "X") {}
            return
        }
        var start = Self.message("R", [0, 0, 0, 0])
        for (name, value) in [("server_version", "16.0"), ("client_encoding", "UTF8")] {
            start += Self.message("S", Array(name.utf8) + [0] + Array(value.utf8) + [0])
        }
        guard self.send(start + Self.message("K", [0, 0, 0, 1, 0, 0, 0, 2]) + Self.ready, connection) else { return }
        if form == .calls { return self.serveCalls(connection) }
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
            // An answer that does not end as the protocol requires ends the connection.
            guard let answer, self.send(answer, connection),
                answer.suffix(Self.ready.count).elementsEqual(Self.ready) || answer.first == UInt8(ascii: "G")
            else { return }
        }
    }

    /// Answers everything but the beginning and the end of a transaction from the script, also with nothing at all.
    private func serveCalls(_ connection: CInt) {
        while let (type, body) = self.message(connection, hasType: true) {
            var answer = (bytes: Self.message("C", Array("BEGIN\0".utf8)) + Self.ready, isLast: false)
            switch type {
            case UInt8(ascii: "Q") where ["BEGIN", "COMMIT", "ROLLBACK"].contains { body.starts(with: $0.utf8) }: break
            case UInt8(ascii: "Q"), UInt8(ascii: "S"), UInt8(ascii: "c"):
                answer = self.script.withLock { Self.callAnswer(&$0) }
            case UInt8(ascii: "X"): return
            default: continue
            }
            guard self.send(answer.bytes, connection), !answer.isLast else { return }
        }
    }

    /// The answer to a call, and whether the server then closes the connection.
    private static func callAnswer(_ script: inout FuzzInput) -> (bytes: [UInt8], isLast: Bool) {
        let mode = script.byte()
        switch mode % 8 {
        case 0: return (self.message("G", [1, 0, 0]), false)
        case 1: return (self.message("C", Array("COPY 1\0".utf8)) + self.ready, false)
        // A notification, which may come later than the answer.
        case 2:
            let text = self.message("A", [0, 0, 0, 9] + Array("fuzz\0".utf8) + script.bytes(Int(mode >> 3)) + [0])
            return (self.message("C", Array("LISTEN\0".utf8)) + self.ready + text, false)
        case 3: return ([], false)
        // Whatever it is.
        case 4: return (script.bytes(Int(script.byte())), false)
        case 5: return (script.bytes(Int(script.byte())), true)
        default: return (self.answer(&script), false)
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

    private func send(_ bytes: [UInt8], _ connection: CInt) -> Bool {
        bytes.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) } == bytes.count
    }
}
