// SPDX-License-Identifier: Apache-2.0

#if MariaDB
import APNSWire
import Glibc
import MariaDB

/// The address of a MariaDB or MySQL database: `mysql://USER@HOST:PORT/DATABASE?ssl-ca=FILE`.
enum MariaDBAddress {
    private static let schemes = ["mysql://", "mariadb://"]

    /// Whether a text is such an address.
    static func isAddress(_ text: String) -> Bool { self.schemes.contains { text.lowercased().hasPrefix($0) } }

    /// Reads an address.
    ///
    /// - Throws: ``TokenTableError/invalidAddress(detail:)``, also if it contains a password.
    static func configuration(_ text: String) throws -> MariaDBConfiguration {
        var configuration = MariaDBConfiguration()
        let scheme = Self.schemes.first(where: text.hasPrefix) ?? ""
        let rest = text.dropFirst(scheme.count)
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let place = parts[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        configuration.database = try Self.decoded(place.count > 1 ? place[1] : "")
        guard !configuration.database.isEmpty, !configuration.database.contains("/") else {
            throw TokenTableError.invalidAddress(detail: "it must end with the name of one database")
        }
        var host = place[0]
        if let at = host.lastIndex(of: "@") {
            let user = host[..<at]
            guard !user.contains(":") else { throw TokenTableError.invalidAddress(detail: Self.passwordSentence) }
            configuration.user = try Self.decoded(user)
            host = host[host.index(after: at)...]
        }
        try Self.readHost(host, &configuration)
        for setting in parts.count > 1 ? parts[1].split(separator: "&") : [] {
            let pair = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            try Self.read(String(pair[0]), try Self.decoded(pair.count > 1 ? pair[1] : ""), &configuration)
        }
        return configuration
    }

    private static let passwordSentence =
        "the address contains a password, which other users can see; put it into ~/.my.cnf, MYSQL_PWD or the file of "
        + "defaults-file"

    private static func decoded(_ text: Substring) throws -> String {
        guard let decoded = PercentEncoding.decoded(text), !decoded.utf8.contains(0) else {
            throw TokenTableError.invalidAddress(detail: "a percent sign is not followed by two hexadecimal digits")
        }
        return decoded
    }

    private static func readHost(_ text: Substring, _ configuration: inout MariaDBConfiguration) throws {
        guard !text.isEmpty else { return }
        // An IPv6 address is in brackets.
        let end = text.first == "[" ? text.firstIndex(of: "]").map { text.index(after: $0) } : text.firstIndex(of: ":")
        let host = text[..<(end ?? text.endIndex)]
        let rest = text[(end ?? text.endIndex)...]
        configuration.host = try Self.decoded(host.first == "[" ? host.dropFirst().dropLast() : host)
        guard !rest.isEmpty else { return }
        guard rest.first == ":", let port = UInt16(rest.dropFirst()), port > 0 else {
            throw TokenTableError.invalidAddress(detail: "the port must be from 1 to 65535")
        }
        configuration.port = port
    }

    private static func read(_ name: String, _ value: String, _ configuration: inout MariaDBConfiguration) throws {
        switch name {
        case "socket": configuration.socket = value
        case "ssl-ca": configuration.authorities = value
        case "ssl-cert": configuration.certificate = value
        case "ssl-key": configuration.key = value
        case "ssl-mode" where value.lowercased() == "disabled": configuration.verifiesServer = false
        case "ssl-mode" where value.lowercased() == "verify_identity": configuration.requiresVerification = true
        case "ssl-mode":
            throw TokenTableError.invalidAddress(detail: "ssl-mode must be VERIFY_IDENTITY (the default) or DISABLED")
        case "defaults-file":
            // The library ignores a file that it cannot read.
            guard unsafe access(value, R_OK) == 0 else {
                throw TokenTableError.invalidAddress(detail: "defaults-file cannot be read")
            }
            configuration.optionFile = value
        case "password": throw TokenTableError.invalidAddress(detail: Self.passwordSentence)
        default:
            let known = "socket, ssl-mode, ssl-ca, ssl-cert, ssl-key and defaults-file"
            throw TokenTableError.invalidAddress(detail: "unknown parameter \"\(name.prefix(40))\"; known are \(known)")
        }
    }
}
#endif
