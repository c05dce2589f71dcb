// SPDX-License-Identifier: Apache-2.0

#if MariaDB
/// An error of a MariaDB or MySQL server, or of the connection to it.
package struct MariaDBError: Error, Hashable, Sendable {
    /// What has failed.
    package enum Kind: Hashable, Sendable {
        /// There is no connection, or it was lost.
        case connection
        /// The server refused a statement.
        case statement
    }

    /// What has failed.
    package var kind: Kind
    /// The number of the server's or the client's error.
    package var number: UInt32
    /// The five characters of the server's code (SQLSTATE).
    package var state: String
    /// The message in one line, in which words that are as long as a token are left out.
    package var message: String

    /// A batch takes too long; with the number of the server's time limit.
    package static let overdue = MariaDBError(.statement, number: 1969, state: "70100", "the batch takes too long")

    init(_ kind: Kind, number: UInt32 = 0, state: String = "HY000", _ message: String) {
        // A connection can be lost in any statement.
        let isLost = kind == .connection || Self.lostNumbers.contains(number)
        self.kind = isLost ? .connection : kind
        self.number = number
        self.state = state
        let shown = message.unicodeScalars.map { scalar in
            scalar.properties.generalCategory == .control ? " " : String(scalar)
        }.joined()
        // What a statement quotes may be a value of a row, also in several words.
        let parts = shown.split(separator: "'", omittingEmptySubsequences: false).enumerated().map { index, part in
            let isValue = index % 2 == 1 && !isLost && part.utf8.count >= Self.wordByteCountMax
            return isValue ? "..." : String(part)
        }
        let words = parts.joined(separator: "'").split(separator: " ").map { word in
            let isShown = word.utf8.count < Self.wordByteCountMax || (isLost && Self.isPath(word))
            return isShown ? String(word) : "..."
        }
        self.message = String(words.joined(separator: " ").prefix(Self.characterCountMax))
    }

    /// The maximum length of a message.
    private static let characterCountMax = 500
    /// The length from which a word may be a value of a row, such as a token.
    private static let wordByteCountMax = 40
    /// No connection can be made; it was lost; the server stops, or ended it.
    private static let lostNumbers: Set<UInt32> = [
        1053, 1927, 2002, 2003, 2005, 2006, 2012, 2013, 2026, 2027, 2055, 3169, 4031,
    ]

    /// Whether a word is a quoted path, as of a socket.
    private static func isPath(_ word: Substring) -> Bool { word.drop { "'\"(`".contains($0) }.hasPrefix("/") }

    /// The class of the server's code, its first two characters.
    package var stateClass: Substring { self.state.prefix(2) }
}
#endif
