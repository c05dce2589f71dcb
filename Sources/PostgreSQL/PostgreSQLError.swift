// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
/// An error of a PostgreSQL server, or of the connection to it.
package struct PostgreSQLError: Error, Hashable, Sendable {
    /// What has failed.
    package enum Kind: Hashable, Sendable {
        /// The address cannot be used.
        case address
        /// There is no connection, or it was lost.
        case connection
        /// The server did not answer in time; the connection is closed.
        case timeout
        /// The server refused a statement.
        case statement
    }

    /// What has failed.
    package var kind: Kind
    /// The five characters of the server's code (SQLSTATE); `nil` if the server sent none.
    package var state: String?
    /// The message in one line.
    ///
    /// It has no values of parameters; the server's detail, which may, is left out.
    package var message: String

    init(_ kind: Kind, state: String? = nil, _ message: String) {
        self.kind = kind
        self.state = state
        let lines = message.split(whereSeparator: \.isNewline).map { line in
            line.drop(while: \.isWhitespace).unicodeScalars.map {
                $0.properties.generalCategory == .control ? "?" : String($0)
            }.joined()
        }
        self.message = String(lines.joined(separator: "; ").prefix(Self.characterCountMax))
    }

    /// The maximum length of a message.
    private static let characterCountMax = 500

    /// The class of the server's code, its first two characters; empty if there is none.
    package var stateClass: Substring { self.state?.prefix(2) ?? "" }
}
#endif
