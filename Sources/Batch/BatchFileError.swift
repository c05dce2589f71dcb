// SPDX-License-Identifier: Apache-2.0

/// Why a file of a batch cannot be read or written.
package struct BatchFileError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The category of the failure, which decides the exit status.
    package enum Kind: Hashable, Sendable {
        /// A file cannot be read.
        case unreadable
        /// What is in a file cannot be used.
        case badData
        /// The file cannot be created, or must not be overwritten because of its kind.
        case uncreatable
        /// A file cannot be written.
        case unwritable
        /// Another process uses a file.
        case inUse
        /// A file is of the wrong kind.
        case unsuitable
        /// A file was removed or replaced while it was written, so the same command must not run again.
        case lost
    }

    /// The category of the failure.
    package var kind: Kind
    /// A sentence for people.
    package var description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
