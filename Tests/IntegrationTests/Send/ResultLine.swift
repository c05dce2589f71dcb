// SPDX-License-Identifier: Apache-2.0

import Foundation

/// One line of the results.
struct ResultLine: Decodable, Sendable {
    var line: Int
    var token: String?
    var outcome: String
    var status: Int?
    var timestamp: Int?
    var attempts: Int
    var possibleDuplicate: Bool?
    var reason: String?

    var isFlagged: Bool { self.possibleDuplicate ?? false }

    static func parse(_ text: String) throws -> [ResultLine] {
        let decoder = JSONDecoder()
        return try text.split(separator: "\n").map { try decoder.decode(ResultLine.self, from: Data($0.utf8)) }
    }
}

/// A message of `--log-format json`, without its sentence.
struct LogObject: Decodable, Equatable, Sendable {
    var level: String
    var exitCode: Int32?
    var file: String?
    var line: Int?
    var column: Int?
    var host: String?
    var port: Int?

    /// All messages.
    static func parse(_ text: String) throws -> [LogObject] {
        let decoder = JSONDecoder()
        return try text.split(separator: "\n").map { try decoder.decode(LogObject.self, from: Data($0.utf8)) }
    }

    /// The numbers of `--summary json`, which is the last line of an output.
    static func counts(_ output: String) throws -> [String: Int] {
        let object = try JSONSerialization.jsonObject(with: Data((output.split(separator: "\n").last ?? "").utf8))
        return (object as? [String: Any] ?? [:]).compactMapValues { $0 as? Int }
    }
}

/// The output of `--summary json`.
struct SummaryObject: Decodable, Sendable {
    var accepted: Int
    var rejected: Int
    var indeterminate: Int
    var unsent: Int
    var invalid: Int
    var suppressed: Int
    var total: Int
    var possibleDuplicates: Int
    var rejectedByStatus: [String: Int]
    var seconds: Double
    var interrupted: Bool

    /// Whether its counts add up to its total.
    var addsUp: Bool {
        let sum = self.accepted + self.rejected + self.indeterminate + self.unsent + self.invalid + self.suppressed
        return sum == self.total && self.rejectedByStatus.values.reduce(0, +) == self.rejected
    }

    /// The object in the last line of an output.
    static func last(of output: String) throws -> SummaryObject {
        let line = output.split(separator: "\n").last ?? ""
        return try JSONDecoder().decode(SummaryObject.self, from: Data(line.utf8))
    }
}
