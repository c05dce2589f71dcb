// SPDX-License-Identifier: Apache-2.0

#if MariaDB
import CMariaDB
import Glibc

/// A connection to a MariaDB or MySQL server, for one thread at a time.
///
/// Calls block, and each read and write of the socket has a time limit. It is never opened again by itself.
@safe package final class MariaDBConnection {
    fileprivate let handle: UnsafeMutablePointer<MYSQL>
    private let configuration: MariaDBConfiguration

    /// The library's initialization is not safe for threads.
    private static let isReady = mysql_server_init(0, nil, nil) == 0

    /// Opens a connection.
    ///
    /// A password comes from an option file or `MYSQL_PWD`.
    ///
    /// - Throws: `MariaDBError`.
    package init(_ configuration: MariaDBConfiguration, timeout: Duration) throws(MariaDBError) {
        self.configuration = configuration
        guard Self.isReady, let handle = unsafe mysql_init(nil) else {
            throw MariaDBError(.connection, "no memory for a connection")
        }
        unsafe self.handle = handle
        self.set(timeout)
        // Matched rows count as changed; several statements in one are refused.
        let port = UInt32(configuration.port ?? 0)
        let opened = unsafe mysql_real_connect(
            handle,
            configuration.host ?? "localhost",
            configuration.user,
            nil,
            configuration.database,
            port,
            configuration.socket,
            UInt(CLIENT_FOUND_ROWS)
        )
        guard unsafe opened != nil else { throw self.error(.connection) }
        // Option files are read later than the options above. A new connection would not have the session's settings.
        self.set(MYSQL_OPT_RECONNECT, CChar(0))
        guard self.configuration.requiresVerification, self.isNetwork else { return }
        var verifies = CChar(0)
        guard unsafe mysql_get_option(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verifies) == 0, verifies != 0,
            unsafe mysql_get_ssl_cipher(handle) != nil
        else {
            throw MariaDBError(.connection, number: Self.unverifiedNumber, "an option file turns off the verification")
        }
    }

    /// That of the client's errors for TLS.
    private static let unverifiedNumber: UInt32 = 2026

    /// To the library, "localhost" with a port is a socket, too.
    private var isNetwork: Bool {
        self.configuration.host.map { $0 != "localhost" || self.configuration.port != nil } ?? false
    }

    deinit { unsafe mysql_close(self.handle) }

    private func set(_ timeout: Duration) {
        let seconds = UInt32(clamping: Int(timeout / .seconds(1)))
        self.set(MYSQL_OPT_CONNECT_TIMEOUT, seconds)
        self.set(MYSQL_OPT_READ_TIMEOUT, seconds)
        self.set(MYSQL_OPT_WRITE_TIMEOUT, seconds)
        // Otherwise, a server can ask for any file of this machine.
        self.set(MYSQL_OPT_LOCAL_INFILE, UInt32(0))
        self.set(MYSQL_SET_CHARSET_NAME, "utf8mb4")
        self.set(MYSQL_READ_DEFAULT_FILE, self.configuration.optionFile)
        self.set(MYSQL_READ_DEFAULT_GROUP, "apns-legacy")
        guard self.isNetwork else { return }
        self.set(MYSQL_OPT_PROTOCOL, UInt32(MYSQL_PROTOCOL_TCP.rawValue))
        guard self.configuration.verifiesServer else { return }
        // Without the verification, the library goes on without TLS if the server has none.
        self.set(MYSQL_OPT_SSL_ENFORCE, CChar(1))
        self.set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, CChar(1))
        self.set(MYSQL_OPT_SSL_CA, self.configuration.authorities)
        self.set(MYSQL_OPT_SSL_CERT, self.configuration.certificate)
        self.set(MYSQL_OPT_SSL_KEY, self.configuration.key)
    }

    private func set(_ option: mysql_option, _ text: String?) {
        if let text { unsafe mysql_options(self.handle, option, text) }
    }

    private func set(_ option: mysql_option, _ number: some FixedWidthInteger) {
        unsafe withUnsafeBytes(of: number) { unsafe _ = mysql_options(self.handle, option, $0.baseAddress) }
    }

    fileprivate func error(_ kind: MariaDBError.Kind) -> MariaDBError {
        unsafe MariaDBError(
            kind,
            number: mysql_errno(self.handle),
            state: String(cString: mysql_sqlstate(self.handle)),
            String(cString: mysql_error(self.handle))
        )
    }

    /// The server and the database, for messages.
    package var name: String { self.configuration.name }

    /// Whether the server is MariaDB, not MySQL.
    package var isMariaDB: Bool {
        unsafe mysql_get_server_info(self.handle).map { unsafe String(cString: $0).contains("MariaDB") } ?? false
    }

    // MARK: Statements

    /// Runs a statement without parameters that returns no rows.
    ///
    /// - Throws: `MariaDBError`.
    package func execute(_ sql: String) throws(MariaDBError) {
        guard unsafe mysql_real_query(self.handle, sql, UInt(sql.utf8.count)) == 0 else { throw self.error(.statement) }
    }

    /// Prepares a statement, and runs it once.
    ///
    /// - Throws: `MariaDBError`.
    package func query(_ sql: String, _ parameters: [MariaDBValue] = []) throws(MariaDBError) -> MariaDBResult {
        try self.prepare(sql).run(parameters)
    }

    /// Prepares a statement whose parameters are question marks.
    ///
    /// - Throws: `MariaDBError`.
    package func prepare(_ sql: String) throws(MariaDBError) -> MariaDBStatement {
        guard let handle = unsafe mysql_stmt_init(self.handle) else { throw self.error(.connection) }
        let statement = unsafe MariaDBStatement(self, handle)
        guard unsafe mysql_stmt_prepare(handle, sql, UInt(sql.utf8.count)) == 0 else { throw statement.error }
        return statement
    }
}

/// The value of a parameter.
package enum MariaDBValue: Hashable, Sendable {
    /// A signed number.
    case integer(Int64)
    /// A number without a sign.
    case unsigned(UInt64)
    /// A number with a fraction.
    case number(Double)
    /// A text in UTF-8.
    case text(String)
    /// Bytes without a character set.
    case bytes([UInt8])
}

/// A prepared statement.
@safe package final class MariaDBStatement {
    /// Kept open as long as its statements.
    private let connection: MariaDBConnection
    private let handle: UnsafeMutablePointer<MYSQL_STMT>

    fileprivate init(_ connection: MariaDBConnection, _ handle: UnsafeMutablePointer<MYSQL_STMT>) {
        self.connection = connection
        unsafe self.handle = handle
    }

    deinit { unsafe mysql_stmt_close(self.handle) }

    fileprivate var error: MariaDBError {
        unsafe MariaDBError(
            .statement,
            number: mysql_stmt_errno(self.handle),
            state: String(cString: mysql_stmt_sqlstate(self.handle)),
            String(cString: mysql_stmt_error(self.handle))
        )
    }

    /// Runs the statement.
    ///
    /// - Throws: `MariaDBError`.
    package func run(_ parameters: some Collection<MariaDBValue>) throws(MariaDBError) -> MariaDBResult {
        let count = unsafe Int(mysql_stmt_param_count(self.handle))
        guard count == parameters.count else {
            throw MariaDBError(.statement, "\(parameters.count) parameters instead of \(count)")
        }
        let bound = MariaDBParameters(parameters)
        // The library reads the parameters when it runs the statement.
        let isRun = withExtendedLifetime(bound) {
            unsafe (bound.binds.isEmpty || mysql_stmt_bind_param(self.handle, bound.binds.baseAddress) == 0)
                && mysql_stmt_execute(self.handle) == 0
        }
        guard isRun else { throw self.error }
        guard unsafe mysql_stmt_field_count(self.handle) > 0 else {
            return unsafe MariaDBResult(changedCount: Int(clamping: mysql_stmt_affected_rows(self.handle)))
        }
        defer { unsafe mysql_stmt_free_result(self.handle) }
        var needsLengths = CChar(1)
        guard unsafe mysql_stmt_attr_set(self.handle, STMT_ATTR_UPDATE_MAX_LENGTH, &needsLengths) == 0,
            unsafe mysql_stmt_store_result(self.handle) == 0
        else { throw self.error }
        return try self.rows()
    }

    /// Copies the rows that the library has received.
    private func rows() throws(MariaDBError) -> MariaDBResult {
        guard let metadata = unsafe mysql_stmt_result_metadata(self.handle) else { throw self.error }
        defer { unsafe mysql_free_result(metadata) }
        let count = unsafe Int(mysql_num_fields(metadata))
        let fields = unsafe UnsafeBufferPointer(start: mysql_fetch_fields(metadata), count: count)
        let types = unsafe fields.map { unsafe MariaDBValueType($0) }
        let columns = unsafe MariaDBColumnBuffers(fields.map { unsafe Int($0.max_length) }, types)
        guard unsafe mysql_stmt_bind_result(self.handle, columns.binds.baseAddress) == 0 else { throw self.error }
        let rowCount = unsafe Int(clamping: mysql_stmt_num_rows(self.handle))
        let result = MariaDBResult(types: types, rowCount: rowCount)
        // The library writes into the columns.
        defer { withExtendedLifetime(columns) {} }
        while true {
            switch unsafe mysql_stmt_fetch(self.handle) {
            case 0: for column in 0..<count { unsafe result.append(columns.value(column)) }
            case MYSQL_NO_DATA: return result
            default: throw self.error
            }
        }
    }
}

/// The form of the values of a column.
enum MariaDBValueType {
    case signed
    case unsigned
    case number
    case bytes

    init(_ field: MYSQL_FIELD) {
        switch unsafe field.type {
        case MYSQL_TYPE_TINY, MYSQL_TYPE_SHORT, MYSQL_TYPE_INT24, MYSQL_TYPE_LONG, MYSQL_TYPE_LONGLONG, MYSQL_TYPE_YEAR:
            self = unsafe field.flags & UInt32(UNSIGNED_FLAG) == 0 ? .signed : .unsigned
        case MYSQL_TYPE_FLOAT, MYSQL_TYPE_DOUBLE: self = .number
        default: self = .bytes
        }
    }

    /// The type in which the library returns the values.
    var bindType: enum_field_types {
        switch self {
        case .signed, .unsigned: MYSQL_TYPE_LONGLONG
        case .number: MYSQL_TYPE_DOUBLE
        case .bytes: MYSQL_TYPE_BLOB
        }
    }
}

/// The bytes of parameters, as the library reads them.
@safe private final class MariaDBParameters {
    let binds: UnsafeMutableBufferPointer<MYSQL_BIND>
    private let bytes: UnsafeMutableRawBufferPointer

    init(_ values: some Collection<MariaDBValue>) {
        unsafe self.binds = .allocate(capacity: values.count)
        unsafe self.binds.initialize(repeating: MYSQL_BIND())
        let byteCount = values.reduce(0) { $0 + Self.byteCount($1) }
        unsafe self.bytes = .allocate(byteCount: byteCount, alignment: 8)
        var offset = 0
        for (index, value) in values.enumerated() {
            let end = offset + Self.byteCount(value)
            let place = unsafe UnsafeMutableRawBufferPointer(rebasing: self.bytes[offset..<end])
            unsafe self.binds[index].buffer = place.baseAddress
            switch value {
            case .integer(let number):
                unsafe self.binds[index].buffer_type = MYSQL_TYPE_LONGLONG
                unsafe place.storeBytes(of: number, as: Int64.self)
            case .unsigned(let number):
                unsafe self.binds[index].buffer_type = MYSQL_TYPE_LONGLONG
                unsafe self.binds[index].is_unsigned = 1
                unsafe place.storeBytes(of: number, as: UInt64.self)
            case .number(let number):
                unsafe self.binds[index].buffer_type = MYSQL_TYPE_DOUBLE
                unsafe place.storeBytes(of: number, as: Double.self)
            case .text(let text):
                unsafe self.binds[index].buffer_type = MYSQL_TYPE_STRING
                unsafe place.copyBytes(from: text.utf8)
                unsafe self.binds[index].buffer_length = UInt(text.utf8.count)
            case .bytes(let bytes):
                unsafe self.binds[index].buffer_type = MYSQL_TYPE_BLOB
                unsafe place.copyBytes(from: bytes)
                unsafe self.binds[index].buffer_length = UInt(bytes.count)
            }
            offset = end
        }
    }

    deinit {
        unsafe self.binds.deallocate()
        unsafe self.bytes.deallocate()
    }

    /// The number of bytes of a value, so that each begins at a multiple of 8.
    private static func byteCount(_ value: MariaDBValue) -> Int {
        switch value {
        case .integer, .unsigned, .number: 8
        case .text(let text): (text.utf8.count + 7) / 8 * 8
        case .bytes(let bytes): (bytes.count + 7) / 8 * 8
        }
    }
}

/// The memory into which the library writes the values of one row.
@safe private final class MariaDBColumnBuffers {
    let binds: UnsafeMutableBufferPointer<MYSQL_BIND>
    private let lengths: UnsafeMutableBufferPointer<UInt>
    private let nulls: UnsafeMutableBufferPointer<CChar>

    init(_ maxLengths: [Int], _ types: [MariaDBValueType]) {
        unsafe self.binds = .allocate(capacity: types.count)
        unsafe self.lengths = .allocate(capacity: types.count)
        unsafe self.nulls = .allocate(capacity: types.count)
        unsafe self.binds.initialize(repeating: MYSQL_BIND())
        unsafe self.lengths.initialize(repeating: 0)
        unsafe self.nulls.initialize(repeating: 0)
        for (index, type) in types.enumerated() {
            let byteCount = max(8, maxLengths[index])
            unsafe self.binds[index].buffer_type = type.bindType
            unsafe self.binds[index].is_unsigned = type == .unsigned ? 1 : 0
            unsafe self.binds[index].buffer = UnsafeMutableRawPointer.allocate(byteCount: byteCount, alignment: 8)
            unsafe self.binds[index].buffer_length = UInt(byteCount)
            unsafe self.binds[index].length = unsafe self.lengths.baseAddress?.advanced(by: index)
            unsafe self.binds[index].is_null = unsafe self.nulls.baseAddress?.advanced(by: index)
        }
    }

    deinit {
        unsafe self.binds.forEach { unsafe $0.buffer.deallocate() }
        unsafe self.binds.deallocate()
        unsafe self.lengths.deallocate()
        unsafe self.nulls.deallocate()
    }

    /// The bytes of a value until the next row is fetched; `nil` for NULL.
    func value(_ column: Int) -> UnsafeRawBufferPointer? {
        guard unsafe self.nulls[column] == 0 else { return nil }
        let bind = unsafe self.binds[column]
        let count = unsafe bind.buffer_type == MYSQL_TYPE_BLOB ? min(self.lengths[column], bind.buffer_length) : 8
        return unsafe UnsafeRawBufferPointer(start: bind.buffer, count: Int(count))
    }
}

/// The rows that a statement returned, or the number of those that it changed.
@safe package final class MariaDBResult {
    /// The number of rows that were changed.
    package let changedCount: Int
    private let types: [MariaDBValueType]
    /// The place of each value; a negative length is NULL.
    private var places: [(offset: Int, count: Int)] = []
    private var storage = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var byteCount = 0

    fileprivate init(changedCount: Int) {
        self.changedCount = changedCount
        self.types = []
    }

    fileprivate init(types: [MariaDBValueType], rowCount: Int) {
        self.changedCount = 0
        self.types = types
        self.places.reserveCapacity(rowCount * types.count)
    }

    deinit { unsafe self.storage.deallocate() }

    fileprivate func append(_ value: UnsafeRawBufferPointer?) {
        guard let value = unsafe value else { return self.places.append((0, -1)) }
        let end = self.byteCount + value.count
        if unsafe end > self.storage.count {
            let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: max(4096, end * 2), alignment: 8)
            unsafe larger.copyMemory(from: UnsafeRawBufferPointer(rebasing: self.storage[..<self.byteCount]))
            unsafe self.storage.deallocate()
            unsafe self.storage = larger
        }
        unsafe UnsafeMutableRawBufferPointer(rebasing: self.storage[self.byteCount..<end]).copyMemory(from: value)
        self.places.append((self.byteCount, value.count))
        self.byteCount = end
    }

    /// The number of returned rows.
    package var count: Int { self.types.isEmpty ? 0 : self.places.count / self.types.count }

    private func place(_ row: Int, _ column: Int) -> (offset: Int, count: Int) {
        self.places[row * self.types.count + column]
    }

    /// Whether a value is NULL.
    package func isNull(_ row: Int, _ column: Int) -> Bool { self.place(row, column).count < 0 }

    /// The bytes of a value, which are valid as long as the result; for NULL, none.
    package func bytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        let (offset, count) = self.place(row, column)
        guard count > 0 else { return unsafe UnsafeRawBufferPointer(start: nil, count: 0) }
        return unsafe UnsafeRawBufferPointer(rebasing: self.storage[offset..<offset + count])
    }

    /// A text; `nil` for NULL.
    package func text(_ row: Int, _ column: Int) -> String? {
        unsafe self.isNull(row, column) ? nil : String(decoding: self.bytes(row, column), as: UTF8.self)
    }

    /// An integer, of which the largest without a sign are negative; 0 for NULL.
    package func integer(_ row: Int, _ column: Int) -> Int64 {
        let bytes = unsafe self.bytes(row, column)
        return bytes.count == 8 ? unsafe bytes.loadUnaligned(as: Int64.self) : 0
    }

    /// A number with a fraction; 0 for NULL.
    package func number(_ row: Int, _ column: Int) -> Double {
        Double(bitPattern: UInt64(bitPattern: self.integer(row, column)))
    }

    /// A value in the form of a parameter; bytes are a text if `isText`, and NULL is none.
    package func value(_ row: Int, _ column: Int, isText: Bool) -> MariaDBValue {
        switch self.types[column] {
        case .signed: .integer(self.integer(row, column))
        case .unsigned: .unsigned(UInt64(bitPattern: self.integer(row, column)))
        case .number: .number(self.number(row, column))
        case .bytes: unsafe isText ? .text(self.text(row, column) ?? "") : .bytes(Array(self.bytes(row, column)))
        }
    }
}
#endif
