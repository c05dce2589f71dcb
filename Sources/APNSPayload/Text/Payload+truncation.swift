// SPDX-License-Identifier: Apache-2.0

import APNSJSON

extension Payload {
    /// The default end of a truncated text: an ellipsis, 3 bytes in UTF-8.
    public static let truncationMark = "…"

    /// Shortens the payload to a maximum length.
    ///
    /// A payload that is short enough is unchanged. Otherwise this removes, as far as needed: the white space between
    /// tokens; escapes in the alert's text that JSON does not need, such as `\u00e9`; and the end of that text, which
    /// is the string `aps.alert` or `aps.alert.body`. It cuts between user-visible characters, and between words if
    /// that keeps at least half of the remaining text. The rest of the payload is unchanged.
    ///
    /// - Parameters:
    ///   - byteCountMax: the maximum length of the payload, in bytes.
    ///   - mark: the end of a truncated text; ``truncationMark`` by default.
    /// - Returns: the shortened payload.
    /// - Throws: ``PayloadProblem`` if the payload is not a JSON object, or if it is too long even without the text.
    public func truncated(
        to byteCountMax: Int,
        mark: String = Payload.truncationMark
    ) throws(PayloadProblem) -> Payload {
        let rules = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
        if try self.check(rules: rules).byteCount <= byteCountMax { return self }
        let bytes = try self.minified(rules: rules).bytes
        if bytes.count <= byteCountMax { return Payload(bytes: bytes) }
        let tooLong = PayloadProblem.Kind.tooLong(byteCount: bytes.count, byteCountMax: byteCountMax)
        guard let (text, range) = Self.alertText(of: bytes) else { throw Self.problem(tooLong, bytes) }
        let room = byteCountMax - (bytes.count - range.count)
        let shortened = JSONWriter.escapedByteCount(text) <= room ? text : Self.shortened(text, to: room, mark: mark)
        guard let shortened else { throw Self.problem(tooLong, bytes) }
        var truncated = bytes
        truncated.replaceSubrange(range, with: JSONWriter.quoted(shortened).utf8.dropFirst().dropLast())
        return Payload(bytes: truncated)
    }

    private static func problem(_ kind: PayloadProblem.Kind, _ bytes: [UInt8]) -> PayloadProblem {
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe PayloadProblem(PayloadFailure(kind: kind, byteOffset: bytes.count), in: bytes)
        }
    }

    /// The beginning of a text with at most this many bytes as JSON, including the mark.
    ///
    /// Returns `nil` if nothing would be left.
    private static func shortened(_ text: String, to byteCountMax: Int, mark: String) -> String? {
        let room = byteCountMax - JSONWriter.escapedByteCount(mark)
        var byteCount = 0
        var end = text.startIndex
        var endOfWords: (index: String.Index, byteCount: Int)?
        while end < text.endIndex {
            let character = text[end]
            if character.isWhitespace, end > text.startIndex { endOfWords = (end, byteCount) }
            let next = byteCount + JSONWriter.escapedByteCount(character)
            guard next <= room else { break }
            byteCount = next
            text.formIndex(after: &end)
        }
        if let words = endOfWords, words.byteCount >= byteCount / 2 { end = words.index }
        guard let last = text[..<end].lastIndex(where: { !$0.isWhitespace }) else { return nil }
        return text[...last] + mark
    }

    /// The text of the alert and its position without quotes; `nil` if there is none.
    private static func alertText(of bytes: [UInt8]) -> (text: String, range: Range<Int>)? {
        unsafe bytes.withUnsafeBytes { bytes in
            var scanner = unsafe JSONScanner(bytes)
            do throws(ScanFailure) {
                guard try scanner.descend(to: "aps"), try scanner.descend(to: "alert") else { return nil }
                if try scanner.kind() == .object {
                    guard try scanner.descend(to: "body") else { return nil }
                }
                guard try scanner.kind() == .string else { return nil }
                let string = try scanner.string()
                let range = string.byteOffset..<(string.byteOffset + string.byteCount)
                return (scanner.text(of: string), range)
            } catch {
                // The payload is already checked.
                return nil
            }
        }
    }
}

extension JSONScanner {
    /// Advances to the value of a member, if the next value is an object that has it.
    ///
    /// Returns whether the value is next.
    ///
    /// - Throws: ``ScanFailure`` for the first byte at fault.
    fileprivate mutating func descend(to name: String) throws(ScanFailure) -> Bool {
        guard try self.kind() == .object else { return false }
        self.enter()
        var isFirst = true
        while let key = try self.nextKey(isFirst: &isFirst) {
            if self.text(of: key) == name { return true }
            try self.skipValue(enclosedBy: 1)
        }
        return false
    }
}

extension JSONWriter {
    /// The length of a text inside the quotes of a JSON string, in bytes.
    fileprivate static func escapedByteCount(_ text: some StringProtocol) -> Int {
        text.utf8.reduce(0) { $0 + self.escapedByteCount($1) }
    }

    /// The length of a character inside the quotes of a JSON string, in bytes.
    fileprivate static func escapedByteCount(_ character: Character) -> Int {
        character.utf8.reduce(0) { $0 + self.escapedByteCount($1) }
    }
}
