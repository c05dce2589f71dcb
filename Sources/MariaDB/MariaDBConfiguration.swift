// SPDX-License-Identifier: Apache-2.0

#if MariaDB
/// Where a server is, and how to connect.
package struct MariaDBConfiguration: Hashable, Sendable {
    /// The user; `nil` for that of the option files, or of the process.
    package var user: String?
    /// The host; `nil` for a socket of this machine.
    package var host: String?
    /// The port; `nil` for that of the option files, or 3306.
    package var port: UInt16?
    /// The path of the socket; `nil` for that of the option files, or the usual one.
    package var socket: String?
    /// The database.
    package var database = ""
    /// Whether a connection to a host is encrypted and the server's certificate verified; an option file prevails.
    package var verifiesServer = true
    /// Whether the connection is refused if an option file has turned that off.
    package var requiresVerification = false
    /// The file of trusted authorities; `nil` for those of the option files, or of the system.
    package var authorities: String?
    /// The file of the client's certificate.
    package var certificate: String?
    /// The file of the client's private key.
    package var key: String?
    /// The file with options such as the password; `nil` for the usual ones, such as `~/.my.cnf`.
    package var optionFile: String?

    /// Creates a configuration for this machine's socket.
    package init() {}

    /// The server and the database, for messages.
    package var name: String { "\(self.database) at \(self.host ?? "localhost")" }
}
#endif
