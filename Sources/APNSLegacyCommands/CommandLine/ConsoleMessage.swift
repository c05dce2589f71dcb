// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Glibc
import NIOCore

/// A message with its level and place, as text or as JSON.
package struct ConsoleMessage: Sendable, Equatable {
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

    package var level: Level
    package var text: String
    package var file: String?
    package var line: Int?
    package var column: Int?
    package var host: String?
    package var port: Int?
    /// Additional fields, whose names contain a period, such as `push.connection.id`.
    package var fields: [(name: String, value: String)] = []

    /// The format of a host and port in messages.
    private static var address: Regex<(Substring, Substring?, Substring?, Substring)> {
        #/
        \b (?: to | on | at | gateway | service | server | proxy ) \x20
        (?: \[ ( [0-9A-Fa-f:.]+ ) \] | ( [A-Za-z0-9] [A-Za-z0-9.\-]*? ) )
        (?: : | \x20 port \x20 ) ( [0-9]{1,5} ) \b
        /#
    }

    /// Creates a message; the place is read from the text unless given.
    package init(_ text: String, _ level: Level = .info) {
        self.level = level
        self.text = text
        if let place = text.prefixMatch(of: /([^:]+?), line ([0-9]+)(?:, column ([0-9]+))?[:,]/) {
            self.file = String(place.1)
            self.line = Int(place.2)
            self.column = place.3.flatMap { Int($0) }
        }
        for place in text.matches(of: Self.address) {
            guard let host = (place.1 ?? place.2).map(String.init), let port = Int(place.3),
                Self.isHost(host, isInBrackets: place.1 != nil), (1...65_535).contains(port)
            else { continue }
            (self.host, self.port) = (host, port)
            return
        }
    }

    /// Whether a text is a host, and not part of a time or another number.
    private static func isHost(_ text: String, isInBrackets: Bool) -> Bool {
        if !isInBrackets, text.contains(where: \.isLetter) { return true }
        return (try? SocketAddress(ipAddress: text, port: 0)) != nil
    }

    /// The prefixes of lines that are warnings.
    private static let warningBeginnings = ["Retrying: ", "Stopped at once", "Stopped early"]

    /// The text of a line that reports an error, without the name of the command; `nil` for other lines.
    static func errorText(of line: String, command: String) -> String? {
        for prefix in ["apns-legacy \(command): ", "apns-legacy: "] where line.hasPrefix(prefix) {
            return String(line.dropFirst(prefix.count))
        }
        return nil
    }

    /// Reads a line of text; a line that starts with the name of the command is an error.
    ///
    /// - Parameters:
    ///   - line: the line.
    ///   - command: the words of the command.
    package init(line: String, command: String) {
        if let text = Self.errorText(of: line, command: command) {
            self = Self(line: text, command: "-")
            // An invalid line for which the run failed is an error, too.
            if self.level == .info || self.line != nil, !text.contains(": warning: ") { self.level = .error }
            return
        }
        for prefix in ["Warning: ", "warning: "] where line.hasPrefix(prefix) {
            self.init(String(line.dropFirst(prefix.count)), .warning)
            return
        }
        self.init(line)
        // What has a line is wrong there.
        if self.line != nil || [": warning: ", " more invalid line"].contains(where: { line.contains($0) })
            || Self.warningBeginnings.contains(where: line.hasPrefix)
        {
            self.level = .warning
        }
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.level == right.level && left.text == right.text && left.file == right.file && left.line == right.line
            && left.column == right.column && left.host == right.host && left.port == right.port
            && left.fields.map(\.name) == right.fields.map(\.name)
            && left.fields.map(\.value) == right.fields.map(\.value)
    }

    /// The longest text in a line of JSON, in characters; it may contain data from others.
    private static let characterCountMax = 16_384

    /// The message as one JSON object, without a line break.
    ///
    /// - Parameter command: the words of the command.
    /// - Returns: the object.
    func json(command: String) -> String {
        var members = [
            "\"time\":\"\(Self.time())\"", "\"level\":\"\(self.level.rawValue)\"",
            "\"command\":\(JSONWriter.quoted(command))",
            "\"message\":\(JSONWriter.quoted(String(self.text.prefix(Self.characterCountMax))))",
        ]
        func add(_ name: String, _ value: String?) {
            if let value { members.append("\"\(name)\":\(value)") }
        }
        add("file", self.file.map { JSONWriter.quoted($0) })
        add("line", self.line.map { "\($0)" })
        add("column", self.column.map { "\($0)" })
        add("host", self.host.map { JSONWriter.quoted($0) })
        add("port", self.port.map { "\($0)" })
        members += self.fields.map { name, value in
            "\(JSONWriter.quoted(name)):\(JSONWriter.quoted(String(value.prefix(Self.characterCountMax))))"
        }
        return "{\(members.joined(separator: ","))}"
    }

    /// The time to the millisecond, such as `2026-11-22T16:00:00.123Z`.
    private static func time() -> String {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &now)
        let milliseconds = String(now.tv_nsec / 1_000_000 + 1000).dropFirst()
        return ISO8601Time.text(Int64(now.tv_sec)).dropLast() + "." + milliseconds + "Z"
    }
}
