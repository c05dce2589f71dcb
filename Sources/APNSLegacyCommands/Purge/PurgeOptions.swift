// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import ArgumentParser
import Batch
import FileSupport
public import TokenStore

/// The purge list that a command uses.
struct PurgeFileOptions: ParsableArguments {
    @Option(
        help: .value("file", "The purge list: a file, or the address of a PostgreSQL database."),
        completion: .file()
    )
    var purgeList: String

    /// Opens the list, which must exist unless it is to be created.
    func open(isMade: Bool = false, _ console: Console) throws -> PurgeList {
        let list = try PurgeList(path: self.purgeList, isMade: isMade)
        try console.warn(of: list)
        return list
    }

    /// Whether a path leads to the file of the list.
    func isSameFile(as path: String) -> Bool {
        FileIdentity(path: self.purgeList).map { FileIdentity(path: path) == $0 } ?? false
    }
}

/// The entries that a command selects.
struct PurgeSelectionOptions: ParsableArguments {
    @Option(help: .value("bundle-id", "Only this topic."))
    var topic: String?

    @Option(help: .value("name", "Only this environment."))
    var environment: PushEnvironment?

    @Option(help: .value("token", "Only this token."))
    var token: PurgeToken?

    @Option(help: .value("time", "Only tokens that failed at this time or later."))
    var failedSince: TimeText?

    @Option(help: .value("time", "Only tokens that failed before this time."))
    var failedBefore: TimeText?

    @Option(help: .value("name", "Only this source, such as feedback or http2:Unregistered."))
    var source: String?

    var query: PurgeQuery {
        var query = PurgeQuery()
        query.topic = self.topic
        query.environment = self.environment
        query.token = self.token?.bytes
        query.failedSinceSeconds = self.failedSince?.seconds
        query.failedBeforeSeconds = self.failedBefore?.seconds
        query.source = self.source
        return query
    }
}

/// A token on the command line, in any supported notation.
struct PurgeToken: ExplainedArgument {
    static let form = "hexadecimal or base64"

    var bytes: [UInt8]

    init?(argument: String) {
        guard let token = DeviceTokenText.bytes(argument) else { return nil }
        self.bytes = token
    }
}

extension BadLines {
    /// The invalid lines of the input of a `purge` command.
    convenience init(in input: SendInput, _ console: Console) {
        self.init(of: input.name, advice: "fix these and run the command again to see the others") { console.emit($0) }
    }
}

extension Console {
    /// Says what cannot be verified in a purge list of an earlier release.
    func warn(of list: PurgeList) throws { if let warning = try list.warning() { self.emit(.warning(warning)) } }
}

extension PurgeExport.Format: ExpressibleByArgument {}

/// Writes entries in blocks.
struct PurgeOutput {
    private let file: OutputFile
    private var export: PurgeExport

    /// The number of bytes in a block.
    static let blockByteCount = 65_536

    init(_ file: OutputFile, _ export: PurgeExport) { (self.file, self.export) = (file, export) }

    mutating func append(_ entry: PurgeEntry) throws {
        self.export.append(entry)
        if self.export.bytes.count >= Self.blockByteCount { try self.flush() }
    }

    /// Writes what follows the last entry.
    mutating func finish() throws {
        self.export.finish()
        try self.flush()
    }

    /// Writes what is not written yet, also the header of a file without entries.
    mutating func flush() throws {
        // What could not be written must not be written twice.
        defer { self.export.removeAll() }
        try self.file.append(self.export.bytes.span)
    }
}
