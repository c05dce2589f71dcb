// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import CPQ
import Glibc

/// A connection to a PostgreSQL server, for one thread at a time.
///
/// Calls block, each for at most its time limit: the socket is in non-blocking mode, and `poll` waits for it. Nothing
/// depends on the session, so that a pooler may pass each transaction to another one.
@safe package final class PostgreSQLConnection {
    private let handle: OpaquePointer
    /// How long the server may take for a statement.
    private let timeout: Duration

    /// Whether a text is the address of a PostgreSQL database.
    package static func isAddress(_ text: String) -> Bool {
        ["postgresql://", "postgres://"].contains { text.lowercased().hasPrefix($0) }
    }

    /// Verifies an address without connecting.
    ///
    /// - Throws: `PostgreSQLError`, also if it contains a password.
    package static func check(_ address: String) throws(PostgreSQLError) { _ = try self.settings(address) }

    /// Opens a connection.
    ///
    /// Unless the address, the environment or the service file says otherwise, the server's certificate is verified. A
    /// password comes from the environment, the password file or the service file.
    ///
    /// - Throws: `PostgreSQLError`, also if the address contains a password.
    package init(_ address: String, timeout: Duration) throws(PostgreSQLError) {
        self.timeout = timeout
        let settings = try Self.settings(address)
        guard let handle = unsafe Self.connect(settings) else {
            throw PostgreSQLError(.connection, "no memory for a connection")
        }
        unsafe self.handle = handle
        // Otherwise, libpq writes the server's notices to standard error.
        unsafe PQsetNoticeProcessor(handle, { _, _ in }, nil)
        // Only in this form do errors of opening, which are no results, have the server's code.
        unsafe PQsetErrorVerbosity(handle, PQERRORS_VERBOSE)
        try self.open()
        unsafe PQsetErrorVerbosity(handle, PQERRORS_DEFAULT)
    }

    deinit { unsafe PQfinish(self.handle) }

    // MARK: Opening

    /// Returns the parameters in the order in which the later ones prevail.
    private static func settings(_ address: String) throws(PostgreSQLError) -> [(String, String)] {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = unsafe PQconninfoParse(address, &message) else {
            defer { unsafe PQfreemem(message) }
            let text = unsafe message.map { unsafe String(cString: $0) } ?? "no memory"
            throw PostgreSQLError(.address, text)
        }
        defer { unsafe PQconninfoFree(options) }
        var given: Set<String> = []
        var option = unsafe options
        while let name = unsafe option.pointee.keyword {
            if unsafe option.pointee.val != nil { unsafe given.insert(String(cString: name)) }
            unsafe option += 1
        }
        guard !given.contains("password") else {
            throw PostgreSQLError(
                .address,
                "the address contains a password, which other users can see; put it into ~/.pgpass, PGPASSWORD or a "
                    + "service file"
            )
        }
        var settings = [("fallback_application_name", "apns-legacy"), ("tcp_user_timeout", "30000")]
        let isService = given.contains("service") || Self.hasVariable("PGSERVICE")
        if !isService, !given.contains("sslmode"), !Self.hasVariable("PGSSLMODE") {
            settings.append(("sslmode", "verify-full"))
            if !given.contains("sslrootcert"), !Self.hasVariable("PGSSLROOTCERT"), let path = Self.authorities {
                settings.append(("sslrootcert", path))
            }
        }
        // Values are exchanged as UTF-8, whatever the environment says.
        return settings + [("dbname", address), ("client_encoding", "UTF8")]
    }

    private static func hasVariable(_ name: String) -> Bool { unsafe getenv(name) != nil }

    /// The authorities of the system, unless the user has a file of their own, which libpq reads by default.
    private static var authorities: String? {
        let home = unsafe getenv("HOME").map { unsafe String(cString: $0) } ?? ""
        guard unsafe access(home + "/.postgresql/root.crt", R_OK) != 0 else { return nil }
        return ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"].first {
            unsafe access($0, R_OK) == 0
        }
    }

    private static func connect(_ settings: [(String, String)]) -> OpaquePointer? {
        let names = unsafe settings.map { unsafe strdup($0.0) } + [nil]
        let values = unsafe settings.map { unsafe strdup($0.1) } + [nil]
        defer { unsafe (names + values).forEach { unsafe free($0) } }
        let constantNames = unsafe names.map { unsafe UnsafePointer<CChar>($0) }
        let constantValues = unsafe values.map { unsafe UnsafePointer<CChar>($0) }
        return unsafe PQconnectStartParams(constantNames, constantValues, 1)
    }

    private func open() throws(PostgreSQLError) {
        let deadline = ContinuousClock.now + self.timeout
        var isWriting = true
        while unsafe PQstatus(self.handle) != CONNECTION_BAD {
            switch unsafe PQconnectPoll(self.handle) {
            case PGRES_POLLING_OK:
                guard unsafe PQsetnonblocking(self.handle, 1) == 0 else { throw self.connectionError }
                return
            case PGRES_POLLING_READING: isWriting = false
            case PGRES_POLLING_WRITING: isWriting = true
            default: throw self.openingError
            }
            try self.wait(isWriting: isWriting, until: deadline)
        }
        throw self.openingError
    }

    /// The error of opening, with the server's code if it has sent one.
    private var openingError: PostgreSQLError {
        let text = unsafe String(cString: PQerrorMessage(self.handle))
        if unsafe PQconnectionNeedsPassword(self.handle) == 1 {
            return PostgreSQLError(.connection, state: "28P01", text)
        }
        // "FATAL:  28P01: password ...", and lines with details, of which the last is the place in the server's source.
        guard let match = text.firstMatch(of: #/: {1,2}((?=[A-Z]*[0-9])[0-9A-Z]{5}): /#) else {
            return PostgreSQLError(.connection, text)
        }
        let lines = text.replacing(match.0, with: ":  ").split(whereSeparator: \.isNewline)
        let message = lines.filter { !$0.contains(/^[A-Z]+: {1,2}\S+, \S+\.c:[0-9]+$/) }.joined(separator: "\n")
        return PostgreSQLError(.connection, state: String(match.1), message)
    }

    private var connectionError: PostgreSQLError {
        unsafe PostgreSQLError(.connection, String(cString: PQerrorMessage(self.handle)))
    }

    /// The server and the database, for messages.
    package var name: String {
        let (host, database) = unsafe (PQhost(self.handle), PQdb(self.handle))
        let names = unsafe [database, host].map { unsafe $0.map { unsafe String(cString: $0) } ?? "" }
        return names[1].isEmpty ? names[0] : "\(names[0]) at \(names[1])"
    }

    // MARK: Statements

    /// Runs one statement with parameters in text form, of which `nil` is NULL, and with a result in binary form.
    ///
    /// - Throws: `PostgreSQLError`.
    package func query(_ sql: String, _ parameters: [String?] = []) throws(PostgreSQLError) -> PostgreSQLResult {
        let texts = unsafe parameters.map { unsafe $0.map { unsafe strdup($0) } ?? nil }
        defer { unsafe texts.forEach { unsafe free($0) } }
        let values = unsafe texts.map { unsafe UnsafePointer<CChar>($0) }
        let count = Int32(parameters.count)
        guard unsafe PQsendQueryParams(self.handle, sql, count, nil, values, nil, nil, 1) == 1 else {
            throw self.connectionError
        }
        return try self.result()
    }

    /// Runs several statements without parameters, as one transaction if they do not begin one.
    ///
    /// - Throws: `PostgreSQLError`.
    package func execute(_ sql: String) throws(PostgreSQLError) {
        guard unsafe PQsendQuery(self.handle, sql) == 1 else { throw self.connectionError }
        _ = try self.result()
    }

    /// Copies rows into a table.
    ///
    /// - Parameters:
    ///   - sql: `COPY ... FROM STDIN (FORMAT binary)`.
    ///   - rows: the rows.
    /// - Throws: `PostgreSQLError`.
    package func copy(_ sql: String, _ rows: consuming PostgreSQLRows) throws(PostgreSQLError) {
        guard unsafe PQsendQuery(self.handle, sql) == 1 else { throw self.connectionError }
        let deadline = ContinuousClock.now + self.timeout
        try self.flush(until: deadline)
        try self.awaitResult(until: deadline)
        guard let next = unsafe PQgetResult(self.handle) else { throw self.connectionError }
        let isReady = unsafe PQresultStatus(next) == PGRES_COPY_IN
        let answer = unsafe PostgreSQLResult(next)
        guard isReady else {
            guard !answer.isCopy else { throw Self.copyError }
            _ = try? self.result()
            throw answer.failure ?? self.connectionError
        }
        let bytes = rows.finish()
        var offset = 0
        while offset < bytes.count {
            let count = min(Self.copyByteCountMax, bytes.count - offset)
            let sent = unsafe bytes.withUnsafeBytes { bytes in
                let start = unsafe bytes.baseAddress.map { unsafe ($0 + offset).assumingMemoryBound(to: CChar.self) }
                return unsafe PQputCopyData(self.handle, start, Int32(count))
            }
            guard sent >= 0 else { throw self.connectionError }
            if sent == 1 { offset += count }
            try self.flush(until: deadline)
        }
        while true {
            let ended = unsafe PQputCopyEnd(self.handle, nil)
            guard ended >= 0 else { throw self.connectionError }
            if ended == 1 { break }
            try self.flush(until: deadline)
        }
        _ = try self.result()
    }

    /// Waits for a notification of a channel that this session listens to.
    ///
    /// Returns whether one came in time.
    ///
    /// - Throws: `PostgreSQLError` if the connection is lost.
    package func awaitNotification(within duration: Duration) throws(PostgreSQLError) -> Bool {
        let deadline = ContinuousClock.now + duration
        while true {
            guard unsafe PQconsumeInput(self.handle) == 1 else { throw self.connectionError }
            var isNotified = false
            while let notification = unsafe PQnotifies(self.handle) {
                isNotified = true
                unsafe PQfreemem(notification)
            }
            if isNotified { return true }
            do { try self.wait(isWriting: false, until: deadline) } catch {
                guard error.kind == .timeout else { throw error }
                return false
            }
        }
    }

    /// The most bytes of rows that libpq buffers at a time.
    private static let copyByteCountMax = 1 << 20

    private static let copyError = PostgreSQLError(.connection, "the server began to copy rows")

    /// Sends what libpq has buffered.
    private func flush(until deadline: ContinuousClock.Instant) throws(PostgreSQLError) {
        while true {
            let rest = unsafe PQflush(self.handle)
            guard rest >= 0 else { throw self.connectionError }
            if rest == 0 { return }
            try self.wait(isWriting: true, until: deadline)
            guard unsafe PQconsumeInput(self.handle) == 1 else { throw self.connectionError }
        }
    }

    /// Waits until a result can be taken without waiting.
    private func awaitResult(until deadline: ContinuousClock.Instant) throws(PostgreSQLError) {
        while unsafe PQisBusy(self.handle) == 1 {
            try self.wait(isWriting: false, until: deadline)
            guard unsafe PQconsumeInput(self.handle) == 1 else { throw self.connectionError }
        }
    }

    private func result() throws(PostgreSQLError) -> PostgreSQLResult {
        let deadline = ContinuousClock.now + self.timeout
        try self.flush(until: deadline)
        var last: PostgreSQLResult?
        var failure: PostgreSQLError?
        while true {
            try self.awaitResult(until: deadline)
            guard let next = unsafe PQgetResult(self.handle) else { break }
            let result = unsafe PostgreSQLResult(next)
            // libpq returns such a result again and again, without waiting.
            guard !result.isCopy else { throw Self.copyError }
            failure = failure ?? result.failure
            last = result
        }
        if unsafe PQstatus(self.handle) == CONNECTION_BAD { throw self.connectionError }
        if let failure { throw failure }
        guard let last else { throw self.connectionError }
        return last
    }

    /// Waits until the socket can be read, or written; it can always be read meanwhile.
    private func wait(isWriting: Bool, until deadline: ContinuousClock.Instant) throws(PostgreSQLError) {
        let events = Int16(isWriting ? POLLIN | POLLOUT : POLLIN)
        var descriptor = unsafe pollfd(fd: PQsocket(self.handle), events: events, revents: 0)
        while true {
            let rest = deadline - .now
            guard rest > .zero else {
                throw PostgreSQLError(.timeout, "the server did not answer within \(self.timeout)")
            }
            let milliseconds = Int32(clamping: Int64(rest / .milliseconds(1)) + 1)
            let count = unsafe poll(&descriptor, 1, milliseconds)
            if count > 0 { return }
            if count < 0, errno != EINTR { throw PostgreSQLError(.connection, "poll failed with errno \(errno)") }
        }
    }
}

/// The rows that a statement returned, or the number of those that it changed.
@safe package final class PostgreSQLResult {
    private let handle: OpaquePointer

    init(_ handle: OpaquePointer) { unsafe self.handle = handle }

    deinit { unsafe PQclear(self.handle) }

    /// The error of the statement; `nil` if it succeeded.
    fileprivate var failure: PostgreSQLError? {
        switch unsafe PQresultStatus(self.handle) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: return nil
        default: break
        }
        // The field for the detail may contain values of rows.
        func field(_ code: Int32) -> String? {
            unsafe PQresultErrorField(self.handle, code).map { unsafe String(cString: $0) }
        }
        return PostgreSQLError(.statement, state: field(Self.stateField), field(Self.messageField) ?? "no message")
    }

    /// Whether the server copies rows, or expects some.
    fileprivate var isCopy: Bool {
        unsafe [PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH].contains(PQresultStatus(self.handle))
    }

    private static let messageField = Int32(UInt8(ascii: "M"))
    private static let stateField = Int32(UInt8(ascii: "C"))

    /// The number of returned rows.
    package var count: Int { unsafe Int(PQntuples(self.handle)) }

    /// The number of columns.
    package var columnCount: Int { unsafe Int(PQnfields(self.handle)) }

    /// The name of a column.
    package func name(ofColumn column: Int) -> String {
        unsafe PQfname(self.handle, Int32(column)).map { unsafe String(cString: $0) } ?? ""
    }

    /// The number of rows that were changed.
    package var changedCount: Int { unsafe Int(String(cString: PQcmdTuples(self.handle))) ?? 0 }

    /// Whether a value is NULL.
    package func isNull(_ row: Int, _ column: Int) -> Bool {
        unsafe PQgetisnull(self.handle, Int32(row), Int32(column)) == 1
    }

    /// The bytes of a value, which are valid as long as the result; for NULL, none.
    package func bytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        let (row, column) = (Int32(row), Int32(column))
        return unsafe UnsafeRawBufferPointer(
            start: PQgetvalue(self.handle, row, column),
            count: Int(PQgetlength(self.handle, row, column))
        )
    }

    /// A text; `nil` for NULL.
    package func text(_ row: Int, _ column: Int) -> String? {
        unsafe self.isNull(row, column) ? nil : String(decoding: self.bytes(row, column), as: UTF8.self)
    }

    /// An integer of any size (`smallint`, `integer`, `bigint`); 0 for NULL.
    package func integer(_ row: Int, _ column: Int) -> Int64 {
        let bits = self.bits(row, column)
        return switch unsafe self.bytes(row, column).count {
        case 2: Int64(Int16(truncatingIfNeeded: bits))
        case 4: Int64(Int32(truncatingIfNeeded: bits))
        default: Int64(bitPattern: bits)
        }
    }

    /// A `double precision`; 0 for NULL.
    package func number(_ row: Int, _ column: Int) -> Double { Double(bitPattern: self.bits(row, column)) }

    /// A `boolean`; `false` for NULL.
    package func isTrue(_ row: Int, _ column: Int) -> Bool { unsafe self.bytes(row, column).first == 1 }

    private func bits(_ row: Int, _ column: Int) -> UInt64 {
        unsafe self.bytes(row, column).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
#endif
