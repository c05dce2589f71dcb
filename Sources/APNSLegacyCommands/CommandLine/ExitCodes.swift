// SPDX-License-Identifier: Apache-2.0

extension ExitStatus {
    /// The general meaning of the exit code.
    package var meaning: String {
        switch self {
        case .success: "success"
        case .someRefused: "some notifications, payloads or lines were rejected, invalid or left out"
        case .checkFailed: "a check found a problem"
        case .usage: "the command line is wrong"
        case .dataError: "the input, the journal or a database is damaged or has the wrong format"
        case .noInput: "an input file does not exist or cannot be read"
        case .unavailable: "cannot connect to the gateway or service, or listen on an address"
        case .software: "internal error (please report it)"
        case .systemError: "the system allows too few open files or too little memory"
        case .cannotCreate: "an output file exists or cannot be created"
        case .ioError: "output cannot be written"
        case .tryAgain: "not finished, or another process holds a file (run the command again)"
        case .notPermitted: "TLS failed, or a certificate or database user is not permitted"
        case .configuration: "a certificate, a key or the configuration is not usable"
        case .limitExceeded: "more rows than --max-fraction would be deleted (nothing was changed)"
        }
    }

    /// Whether the same command may succeed later without a change.
    package var isTemporary: Bool {
        switch self {
        case .unavailable, .systemError, .ioError, .tryAgain: true
        default: false
        }
    }

    /// The exit codes that every command has.
    private static let common: [ExitStatus] = [.usage, .software, .systemError, .ioError]

    /// The exit codes of a command, for its help; `Scripts/manual` also reads them.
    ///
    /// Returns a title, and a line for each code.
    static func list(_ own: KeyValuePairs<ExitStatus, String>, _ others: ExitStatus...) -> String {
        var meanings: [ExitStatus: String] = [:]
        for status in Self.common + others { meanings[status] = status.meaning }
        for (status, meaning) in own { meanings[status] = meaning }
        let rows = meanings.sorted { $0.key.rawValue < $1.key.rawValue }.map { status, meaning in
            let code = "  \(status.rawValue)"
            return (code + String(repeating: " ", count: Self.column - code.count) + meaning).wrapped(
                indent: Self.column
            )
        }
        return (["Exit codes:"] + rows).joined(separator: "\n")
    }

    /// The column where the meanings start.
    private static let column = 6

    /// The exit codes of all commands, as `apns-legacy help exit-codes` prints them.
    package static var table: String {
        let rows = Self.allCases.map { status in
            let code = String(repeating: " ", count: 4 - "\(status.rawValue)".count) + "\(status.rawValue)"
            return "\(code)  \(status.meaning)\(status.isTemporary ? " (*)" : "")"
        }
        let lines =
            ["Exit codes of all commands:", ""] + rows + [
                "", "(*) The same command may succeed later; a script can run it again.",
                "Codes from 64 to 78 are those of sysexits.h. If a command fails in several ways,",
                "it exits with the code of the worst. If a signal ends it, the shell reports 128",
                "and the number of the signal, such as 137 after kill -9.",
            ]
        return lines.joined(separator: "\n") + "\n"
    }
}
