// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSJSON
package import APNSTransport
import APNSWire
import Batch

/// What a part of a command reports on standard error, as text or as one JSON object.
package struct Diagnostic: Sendable {
    /// The severity of a message.
    package enum Level: String, Sendable, CaseIterable {
        case trace
        case debug
        case info
        case notice
        case warning
        case error
        case critical
    }

    /// The file that a message is about, and the place in it.
    package struct Place: Sendable, Hashable, CustomStringConvertible {
        package var file: String
        /// From 1.
        package var line: Int?
        /// From 1, in code points.
        package var column: Int?

        package var description: String {
            self.file + (self.line.map { ", line \($0)" } ?? "") + (self.column.map { ", column \($0)" } ?? "")
        }
    }

    package var level: Level
    /// What happened, with its place, as people read it.
    package var sentence: String
    /// What to do about it.
    package var advice: String?
    /// The exit code that the message leads to by itself; `nil` if the command continues.
    package var code: ExitStatus?
    package var place: Place?
    /// The other end of the connection that the message is about, or the address to listen on.
    package var endpoint: Endpoint?
    /// The typed error behind the message, if there is one: messages with the same code and place can differ in it.
    package var cause: (any Error)?
    /// Additional fields, whose names contain a period, such as `apns.legacy.connection.id`.
    var fields: [(name: String, value: String)] = []
    /// Whether text begins with "Warning:"; a sentence about a run that stops early does not need it.
    private var isLabeled = false

    /// Creates a message.
    init(
        _ level: Level,
        _ sentence: String,
        advice: String? = nil,
        place: Place? = nil,
        endpoint: Endpoint? = nil
    ) {
        self.level = level
        self.sentence = sentence
        self.advice = advice
        self.place = place
        self.endpoint = endpoint
    }

    /// A message about a place in a file, which its text names first.
    init(_ level: Level, at place: Place, _ sentence: String) {
        self.init(level, "\(place): \(sentence)", place: place)
    }

    /// A warning, labeled as such.
    package static func warning(_ sentence: String) -> Diagnostic {
        var diagnostic = Diagnostic(.warning, sentence)
        diagnostic.isLabeled = true
        return diagnostic
    }

    /// An error, which text precedes with the name of the command, and the exit code that it leads to.
    package static func error(_ sentence: String, _ code: ExitStatus? = nil) -> Diagnostic {
        var diagnostic = Diagnostic(.error, sentence)
        diagnostic.code = code
        return diagnostic
    }

    /// The sentence with its advice, without the label of the level.
    package var text: String { self.advice.map { "\(self.sentence); \($0)" } ?? self.sentence }

    /// The message with another subject before its sentence.
    func about(_ subject: String) -> Diagnostic {
        var diagnostic = self
        diagnostic.sentence = "\(subject): \(self.sentence)"
        return diagnostic
    }

    // MARK: Renderings

    /// The label of the level in text, for example the name of the command before an error.
    func label(command: String) -> String? {
        switch self.level {
        case .error, .critical: "apns-legacy" + (command.isEmpty ? "" : " \(command)") + ":"
        case .warning where self.isLabeled: "Warning:"
        default: nil
        }
    }

    /// The longest text in a line of JSON, in characters; it may contain data from others.
    private static let characterCountMax = 16_384

    /// The message as one JSON object, without a line break.
    func json(command: String) -> String {
        func limited(_ text: String) -> String { String(text.prefix(Self.characterCountMax)) }
        return JSONObject { object in
            object.add("time", ISO8601Time.now)
            object.add("level", self.level.rawValue)
            object.add("command", limited(command))
            object.add("message", limited(self.text))
            object.add("exitCode", self.code.map { Int($0.rawValue) })
            object.add("file", self.place.map { limited($0.file) })
            object.add("line", self.place?.line)
            object.add("column", self.place?.column)
            object.add("host", self.endpoint.map { limited($0.host) })
            object.add("port", self.endpoint?.port)
            for (name, value) in self.fields { object.add(name, limited(value)) }
        }.text
    }
}

extension Diagnostic: ExpressibleByStringInterpolation {
    /// Information without a level of its own.
    package init(stringLiteral sentence: String) { self.init(.info, sentence) }
}

extension Diagnostic.Place {
    /// The place of an invalid line in a file.
    init(_ problem: BatchProblem, in file: String) {
        self.init(file: file, line: problem.lineNumber, column: problem.column)
    }

    /// The place of the error in a file with one payload.
    init(_ problem: PayloadProblem, in file: String) {
        self.init(file: file, line: problem.line, column: problem.column)
    }
}
