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
