// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Batch

/// The option for other names of columns and keys.
struct ColumnNameOptions: ParsableArguments, Sendable {
    @Option(
        help: .value(
            "column=name",
            "Read a column of CSV or a key of JSON lines under another name, such as token=device_token; repeatable."
        )
    )
    var column: [String] = []
}

/// The names of columns and keys in a batch.
struct SendColumnOptions: ParsableArguments, Sendable {
    @OptionGroup var naming: ColumnNameOptions

    @Flag(help: "Skip columns of CSV and keys of JSON lines that are unknown, instead of refusing them.")
    var ignoreUnknownColumns = false

    /// The names.
    func names() throws -> ColumnNames { try .init(parsing: self.naming.column) }

    func validate() throws { _ = try self.names() }
}

extension ColumnNames {
    /// Reads the arguments of `--column`.
    ///
    /// - Throws: a usage error.
    init(parsing arguments: [String], _ kind: InputKind = .batch) throws {
        do throws(ColumnMappingError) {
            try self.init(arguments, kind)
        } catch {
            throw ValidationError("\(error)")
        }
    }
}
