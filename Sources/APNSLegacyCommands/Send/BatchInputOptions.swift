// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSProvider
import APNSWire
import ArgumentParser
import Batch

/// The batch, and the payload of lines that have none.
struct BatchInputOptions: ParsableArguments, Sendable {
    @Argument(
        help: .value("input", "The batch: a file of JSON lines or CSV, or - for standard input."),
        completion: .file()
    )
    var input: String?

    @OptionGroup var naming: ColumnNameOptions

    @Flag(help: "Skip columns of CSV and keys of JSON lines that are unknown, instead of refusing them.")
    var ignoreUnknownColumns = false

    @Option(
        help: .value("file", "Instead of INPUT: a file with one device token a line, or - for standard input."),
        completion: .file()
    )
    var tokens: String?

    @Option(
        help: .value("file", "A JSON file with the payload of all lines that have none."),
        completion: .file()
    )
    var payload: String?

    @Option(help: .value("text", "The same, with this text as the alert."))
    var alert: String?

    @Option(help: .value("format", "The format of the input. (default: from its name or first line)"))
    var format: BatchFormat?

    @Option(
        help: .value(
            "bundle-id",
            "The app of the tokens, for HTTP/2 and the purge list. (default: from the certificate)"
        )
    )
    var topic: String?

    @Option(
        help: .value(
            "bytes",
            "The longest payload; devices before 2014 accept 256. (default: 2048; HTTP/2: 4096; VoIP: 5120)"
        )
    )
    var payloadMax: Int?

    /// The names of columns and keys.
    func columnNames() throws -> ColumnNames { try .init(parsing: self.naming.column) }

    func validate() throws {
        _ = try self.columnNames()
        try TopicCheck.check(self.topic)
        guard self.input == nil || self.tokens == nil else {
            throw ValidationError("INPUT and --tokens exclude each other; use one of them")
        }
        guard self.input != nil || self.tokens != nil else {
            throw ValidationError(
                "nothing to send; name an INPUT file, or use --tokens FILE with --payload FILE or --alert TEXT"
            )
        }
        guard self.payload == nil || self.alert == nil else {
            throw ValidationError("--payload and --alert exclude each other; use one of them")
        }
        if self.tokens != nil, self.payload == nil, self.alert == nil {
            throw ValidationError("--tokens needs --payload FILE or --alert TEXT")
        }
        try self.require(1...NotificationBatch.payloadByteCountMax, "--payload-max", self.payloadMax)
    }
}

extension BatchFormat: ExpressibleByArgument {}

extension BatchInputOptions {
    /// The path of the input; `-` is standard input.
    var path: String { self.tokens ?? self.input ?? "-" }

    /// The format of the batch; `nil` if its first line decides.
    var inputFormat: BatchFormat? {
        if self.tokens != nil { return .tokens }
        return self.format ?? self.input.flatMap { BatchFormat(fileName: $0) }
    }

    /// The payload of lines that have none; `nil` if there is none.
    func commonPayload(_ console: Console) throws -> [UInt8]? {
        if let alert { return Array("{\"aps\":{\"alert\":\(JSONWriter.quoted(alert))}}".utf8) }
        guard let path = self.payload else { return nil }
        let bytes = try console.open(path).readAll(byteCountMax: Self.payloadFileByteCountMax)
        if let bytes { return bytes }
        throw CommandFailure(.dataError, "\(path) is too large for a payload (limit: 1 MiB)")
    }

    /// White space does not count, so the file may be longer than the payload.
    private static let payloadFileByteCountMax = 1 << 20

    /// Returns a reader of the lines; the options are those that are not of the command line.
    func reader(_ options: BatchOptions) throws -> BatchReader {
        var options = options
        options.columns = try self.columnNames()
        options.ignoresUnknownColumns = self.ignoreUnknownColumns
        let reader: BatchReader
        do {
            reader = try BatchReader(format: self.inputFormat, options: options)
        } catch {
            guard let path = self.payload else { throw CommandFailure(.dataError, "--alert: \(error)") }
            throw CommandFailure(.dataError, at: .init(error, in: path), "\(error.kind)")
        }
        if let path = self.payload, let problem = reader.commonProblem {
            throw CommandFailure(.dataError, at: .init(file: path), "\(problem)")
        }
        return reader
    }
}
