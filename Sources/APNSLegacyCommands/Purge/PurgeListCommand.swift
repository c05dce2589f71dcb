// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import BatchFiles
import TokenStore

/// `apns-legacy purge list`: shows entries to people.
struct PurgeListCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Show entries, ordered by topic, environment and token.",
        discussion: """
            A line an entry, with tabs between: the newest failure, environment, topic, token and source. For other \
            programs there is export.
            """
    )

    @OptionGroup var file: PurgeFileOptions
    @OptionGroup(title: "Which entries") var selection: PurgeSelectionOptions

    @Option(help: .value("number", "Show so many at most."))
    var limit: Int?

    @Flag(help: "Print only how many there are.")
    var count = false

    func validate() throws {
        guard self.limit ?? 1 > 0 else { throw ValidationError("--limit is 1 or more.") }
        guard self.limit == nil || !self.count else { throw ValidationError("Say --limit or --count, not both.") }
    }

    /// So many were asked for.
    private struct Enough: Error {}

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let list = try self.file.open()
        var output = PurgeOutput(try environment.console.create("-"))
        var count = 0
        do {
            try list.entries(matching: self.selection.query) { entry in
                count += 1
                guard !self.count else { return }
                try output.append(PurgeListCommand.line(entry))
                if count == self.limit { throw Enough() }
            }
        } catch is Enough {}
        if self.count { try output.append("\(count)\n") }
        try output.flush()
        return .success
    }

    private static func line(_ entry: PurgeEntry) -> String {
        let fields = [
            TimeText(seconds: entry.failedAt).text, entry.environment.rawValue, entry.topic,
            Hexadecimal.text(entry.token), entry.source,
        ]
        return fields.joined(separator: "\t") + "\n"
    }
}

/// Lines on their way out, a block at a time.
struct PurgeOutput {
    private let file: OutputFile
    private var bytes: [UInt8] = []

    /// So many bytes go out at a time.
    static let blockByteCount = 65_536

    init(_ file: OutputFile) { self.file = file }

    mutating func append(_ text: String) throws {
        self.bytes.append(contentsOf: text.utf8)
        if self.bytes.count >= Self.blockByteCount { try self.flush() }
    }

    mutating func flush() throws {
        try self.file.append(self.bytes.span)
        self.bytes.removeAll(keepingCapacity: true)
    }
}
