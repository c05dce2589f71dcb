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
        /// A file was removed, replaced or truncated while it was written, so the same command must not run again.
        case lost
    }

    /// Which of the failures of a kind it is, where their files do not tell them apart.
    package enum Reason: Hashable, Sendable {
        /// The content is of another kind, such as a certificate instead of a batch.
        case otherContent
        /// The compressed data ends early.
        case truncated
        /// The compressed data does not match its checksum.
        case corrupt
        /// The input changed while it was read.
        case changed
        /// One file has two uses.
        case sameFile
        /// The output has further names, or is a link.
        case linked
        /// The file is not a journal, or its first line is damaged.
        case notAJournal
        /// The journal is that of another batch.
        case otherBatch
        /// The journal lacks records of which there are results.
        case recordsLost
        /// The results are not those that the journal records.
        case resultsChanged
    }

    /// A line of an input that is at fault.
    package struct Place: Hashable, Sendable {
        package var file: String
        /// From 1.
        package var lineNumber: Int
        /// From 1, in code points.
        package var column: Int?
    }

    /// The category of the failure.
    package var kind: Kind
    /// A sentence for people, with the place.
    package var description: String
    /// Which of the failures of its kind it is, if it can be confused with others.
    package private(set) var reason: Reason?
    /// The line at fault, if there is one.
    package private(set) var place: Place?

    init(_ kind: Kind, _ description: String) { self.init(kind, nil, description) }

    init(_ kind: Kind, _ reason: Reason?, _ description: String) {
        self.kind = kind
        self.reason = reason
        self.description = description
    }

    /// A line of an input at fault.
    init(_ kind: Kind, in file: String, _ problem: BatchProblem) {
        self.init(kind, "\(file), \(problem)")
        self.place = Place(file: file, lineNumber: problem.lineNumber, column: problem.column)
    }

    /// A line of an input at fault.
    init(_ kind: Kind, in file: String, line lineNumber: Int, _ sentence: String) {
        self.init(kind, "\(file), line \(lineNumber): \(sentence)")
        self.place = Place(file: file, lineNumber: lineNumber)
    }
}
