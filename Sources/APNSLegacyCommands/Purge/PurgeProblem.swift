// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// Why a line is not taken into a list; never shows what the line says.
enum PurgeProblem: Error, Equatable, CustomStringConvertible {
    case tooLong(byteCountMax: Int)
    case json(PayloadProblem.Kind)
    case notAnObject(JSONKind)
    case wrongKind(PurgeColumn, found: JSONKind)
    case notUTF8
    case misplacedQuote
    case fieldCount(found: Int, expected: Int)
    case noToken
    case token
    case noTopic
    case noEnvironment
    case environment
    case noTime
    case time(String)
    case future(String)
    case entry(String)

    var description: String {
        switch self {
        case .tooLong(let byteCountMax): "it has more than \(byteCountMax) bytes"
        case .json(let kind): kind.description
        case .notAnObject(let kind): "it is \(kind), not an object"
        case .wrongKind(let column, let found): "\(column.rawValue) is \(found)"
        case .notUTF8: "it is not UTF-8"
        case .misplacedQuote: "a double quote stands where none may, or lacks its partner"
        case .fieldCount(let found, let expected): "it has \(found) fields, and the header has \(expected)"
        case .noToken: "it has no token"
        case .token: "its token is neither hexadecimal digits of 1 to 100 bytes nor the base64 of 32 bytes"
        case .noTopic: "it has no topic; say which with --topic"
        case .noEnvironment: "it has no environment; say which with --environment"
        case .environment: "its environment is neither production nor sandbox"
        case .noTime: "it has no time of failure; say when with --failed-at: now, a time, or an age such as 1d"
        case .time(let name): "\(name) is neither seconds since 1970 nor ISO 8601, or later than the year 9999"
        case .future(let name): "\(name) is in the future; is it in milliseconds, or is a clock wrong?"
        case .entry(let text): text
        }
    }
}

/// Tells about the first bad lines, and counts all.
struct PurgeProblems {
    let name: String
    private let console: Console
    private(set) var count: UInt64 = 0

    /// So many bad lines are told about one by one.
    private static let toldCountMax = 20

    init(name: String, _ console: Console) {
        self.name = name
        self.console = console
    }

    mutating func add(_ problem: PurgeProblem, line: UInt64) {
        self.count += 1
        if self.count <= Self.toldCountMax {
            self.console.say("\(self.name), line \(line): \(problem)")
        }
        if self.count == Self.toldCountMax + 1 {
            self.console.say("\(self.name): further bad lines are only counted.")
        }
    }
}
