// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import APNSJSON

/// What the results say about a line, besides its token and id.
package struct LineResult: Sendable {
    /// The line of the input, counted from 1.
    package var line: UInt64
    package var outcome: LineOutcome
    /// With status 410, when the device unregistered.
    package var timestamp: UInt64?
    /// How many times the notification was written.
    package var attempts: Int
    /// An explanation.
    package var reason: String?
    /// The identifier of its request over HTTP/2.
    package var apnsID: PushIdentifier?
    /// The identifier that the service gave it, in the sandbox.
    package var apnsUniqueID: PushIdentifier?

    package init(
        _ line: UInt64,
        _ outcome: LineOutcome,
        timestamp: UInt64? = nil,
        attempts: Int,
        reason: String? = nil
    ) {
        self.line = line
        self.outcome = outcome
        self.timestamp = timestamp
        self.attempts = attempts
        self.reason = reason
    }
}

/// Writes results as JSON lines into memory of constant size, without an allocation per line.
///
/// | key                 | value                                                                       |
/// |---------------------|-----------------------------------------------------------------------------|
/// | `line`              | the line of the input, counted from 1                                       |
/// | `id`                | the JSON value of the input, unchanged; absent if it has none               |
/// | `token`             | lower-case hexadecimal digits; absent if the line is invalid                |
/// | `outcome`           | a name of `DeliveryOutcome.Kind`                                            |
/// | `status`            | the status of a rejection; absent otherwise                                 |
/// | `statusText`        | the name of the status, as in `invalid token`; absent if it has none        |
/// | `timestamp`         | with status 410, when the device unregistered, as the service reported it   |
/// | `attempts`          | how many times the notification was written                                 |
/// | `possibleDuplicate` | `true`, or absent                                                           |
/// | `apnsId`            | the `apns-id` of the request; absent over the binary protocol               |
/// | `apnsUniqueId`      | the `apns-unique-id` of the answer; absent if it has none                   |
/// | `reason`            | an explanation; absent if there is none                                     |
@safe package struct BatchResultWriter: ~Copyable {
    private let memory: UnsafeMutableRawBufferPointer
    /// The number of bytes written.
    package private(set) var byteCount = 0
    /// Where the line that was written last begins.
    private var lastStart = 0

    /// The size limit of a line without its id and reason, in bytes: names, four numbers, a token of 100 bytes, and two
    /// identifiers.
    static let fixedByteCountMax = 640

    /// Creates a writer.
    package init(capacity: Int = 262_144) {
        // The alignment of `malloc`: glibc before 2.38 does not reuse freed memory with a larger alignment, so the
        // memory of a long batch would grow.
        unsafe self.memory = .allocate(byteCount: max(capacity, 1024), alignment: 16)
    }

    deinit {
        unsafe self.memory.deallocate()
    }

    /// The lines written since the last ``removeAll()``; valid until the next change.
    package var bytes: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(rebasing: self.memory[..<self.byteCount])
    }

    /// The line that was written last; valid until the next change.
    var lastLine: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(rebasing: self.memory[self.lastStart..<self.byteCount])
    }

    /// Removes the lines after they were written to the file.
    package mutating func removeAll() {
        self.byteCount = 0
    }

    /// Writes one line.
    ///
    /// Returns `false` if there is no room and nothing was written; empty the writer and write the line again. A line
    /// that does not fit in an empty writer is written without its reason, or without its reason and id.
    package mutating func append(
        _ result: borrowing LineResult,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken
    ) -> Bool {
        guard let (hasID, hasReason) = unsafe self.room(id: id, reason: result.reason) else { return false }
        var text = self.begin(lineNumber: Int(clamping: result.line))
        if hasID {
            text.append(",\"id\":")
            unsafe text.append(id)
        }
        text.append(",\"token\":\"")
        unsafe token.withUnsafeBytes { unsafe text.appendHexadecimal($0) }
        text.append("\",\"outcome\":\"")
        text.append(result.outcome.kind.name)
        if let status = result.outcome.status {
            text.append("\",\"status\":")
            text.append(Int(status))
            if let name = Rejection.staticStatusText(status) {
                text.append(",\"statusText\":\"")
                text.append(name)
                text.append(UInt8(ascii: "\""))
            }
            if let timestamp = result.timestamp {
                text.append(",\"timestamp\":")
                text.append(Int(clamping: timestamp))
            }
            text.append(",\"attempts\":")
        } else {
            text.append("\",\"attempts\":")
        }
        text.append(max(result.attempts, 0))
        if result.outcome.isDuplicate { text.append(",\"possibleDuplicate\":true") }
        if let identifier = result.apnsID { Self.append(",\"apnsId\":\"", identifier, to: &text) }
        if let identifier = result.apnsUniqueID { Self.append(",\"apnsUniqueId\":\"", identifier, to: &text) }
        self.end(&text, reason: hasReason ? result.reason : nil)
        return true
    }

    /// Writes the result of an invalid line of the input, without a token and an id.
    ///
    /// Returns `false` if there is no room and nothing was written.
    package mutating func append(_ problem: BatchProblem) -> Bool {
        let reason = problem.column.map { "column \($0): \(problem.kind)" } ?? problem.kind.description
        let none = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        guard let (_, hasReason) = unsafe self.room(id: none, reason: reason) else { return false }
        var text = self.begin(lineNumber: problem.lineNumber)
        text.append(",\"outcome\":\"")
        text.append(DeliveryOutcome.Kind.invalid.name)
        text.append("\",\"attempts\":0")
        self.end(&text, reason: hasReason ? reason : nil)
        return true
    }

    /// Which parts of a line fit; `nil` if it does not fit until the writer is emptied.
    private func room(id: UnsafeRawBufferPointer, reason: String?) -> (hasID: Bool, hasReason: Bool)? {
        let free = unsafe self.memory.count - self.byteCount - Self.fixedByteCountMax
        let reasonCount = (reason?.utf8.count ?? 0) * JSONWriter.escapeByteCountMax
        if id.count + reasonCount <= free { return unsafe (!id.isEmpty, reason != nil) }
        guard self.byteCount == 0 else { return nil }
        return unsafe id.count <= free ? (!id.isEmpty, false) : (false, false)
    }

    private static func append(_ key: StaticString, _ identifier: PushIdentifier, to text: inout JSONWriter) {
        text.append(key)
        unsafe identifier.withText { unsafe text.append($0) }
        text.append(UInt8(ascii: "\""))
    }

    private func begin(lineNumber: Int) -> JSONWriter {
        var text = unsafe JSONWriter(UnsafeMutableRawBufferPointer(rebasing: self.memory[self.byteCount...]))
        text.append("{\"line\":")
        text.append(max(lineNumber, 0))
        return text
    }

    private mutating func end(_ text: inout JSONWriter, reason: String?) {
        if let reason {
            text.append(",\"reason\":\"")
            var reason = reason
            reason.withUTF8 { unsafe text.appendEscaped(UnsafeRawBufferPointer($0)) }
            text.append(UInt8(ascii: "\""))
        }
        text.append("}\n")
        self.lastStart = self.byteCount
        self.byteCount += text.byteCount
    }
}
