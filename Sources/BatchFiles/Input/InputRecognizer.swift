// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

/// What a command expects to read.
package enum InputExpectation: Hashable, Sendable {
    /// One JSON value, or other text that need not consist of lines of a batch.
    case document
    /// Lines of a batch; of any format if `nil`.
    case lines(BatchFormat?)
}

/// A kind of content that is not a batch, by its first bytes.
///
/// A file that is not a batch would otherwise produce an error for each line, none of which describes the mistake.
enum UnexpectedContent: Hashable {
    case file(FileContent)
    case prettyPrintedJSON
    case jsonArray(BatchFormat?)
    case jsonLinesInsteadOfTokens

    /// The number of bytes that decide; the first line decides earlier.
    static let prefixByteCount = 4096

    /// Whether a prefix of the content decides, so that the result does not depend on how many bytes a read returns.
    static func isEnough(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if bytes.count >= self.prefixByteCount { return true }
        // The first line that is not blank is complete. A stream may pause after it, however short it is.
        var rest = unsafe bytes[...]
        while let end = unsafe rest.firstIndex(of: 0x0A) {
            let line = unsafe UnsafeRawBufferPointer(rebasing: rest[..<end])
            if unsafe !line.trimmed.isEmpty {
                return unsafe bytes.count >= self.signatureByteCount || line.allSatisfy { (0x09..<0x7F).contains($0) }
            }
            unsafe rest = unsafe rest[(end + 1)...]
        }
        return false
    }

    /// The number of bytes of the longest signature.
    private static let signatureByteCount = 16

    /// Recognizes content; `nil` if the command may be able to read it.
    ///
    /// - Parameters:
    ///   - bytes: the beginning of the content, after decompression.
    ///   - expectation: what the command expects.
    init?(_ bytes: UnsafeRawBufferPointer, expecting expectation: InputExpectation) {
        let prefix = unsafe UnsafeRawBufferPointer(rebasing: bytes.prefix(Self.prefixByteCount))
        if let content = unsafe FileContent(beginning: Array(prefix)) {
            self = .file(content)
            return
        }
        let (text, isWhole) = unsafe Self.firstLine(prefix)
        if let content = unsafe FileContent(firstLine: Array(text)) {
            self = .file(content)
            return
        }
        guard case .lines(let format) = expectation, let content = unsafe Self.json(text, isWhole, format) else {
            return nil
        }
        self = content
    }

    // MARK: Text

    /// The first line that is not blank.
    ///
    /// - Returns: the line, and whether its end is there: a longer one is cut anywhere.
    private static func firstLine(
        _ bytes: UnsafeRawBufferPointer
    ) -> (line: UnsafeRawBufferPointer, isWhole: Bool) {
        var rest = unsafe bytes[...]
        if unsafe rest.starts(with: [0xEF, 0xBB, 0xBF]) { unsafe rest = unsafe rest.dropFirst(3) }
        while true {
            let line = unsafe UnsafeRawBufferPointer(rebasing: rest.prefix { $0 != 0x0A }).trimmed
            guard let end = unsafe rest.firstIndex(of: 0x0A) else {
                // Fewer bytes than were asked for end with the content.
                return unsafe (line, bytes.count < self.prefixByteCount)
            }
            if unsafe !line.isEmpty { return unsafe (line, true) }
            unsafe rest = unsafe rest[(end + 1)...]
        }
    }

    private static func json(_ line: UnsafeRawBufferPointer, _ isWhole: Bool, _ format: BatchFormat?) -> Self? {
        guard format != .csv, let first = unsafe line.first, let last = unsafe line.last else { return nil }
        if first == UInt8(ascii: "[") { return .jsonArray(format) }
        guard isWhole, first == UInt8(ascii: "{") else { return nil }
        // The line of an object ends with its brace.
        if "{[,:".utf8.contains(last) { return .prettyPrintedJSON }
        return format == .tokens && last == UInt8(ascii: "}") ? .jsonLinesInsteadOfTokens : nil
    }

    // MARK: Description

    /// What it is, and what to do about it.
    ///
    /// - Parameter name: the name of the file for a command line; `nil` for standard input.
    /// - Returns: a part of an error.
    func advice(file name: String?) -> String {
        switch self {
        case .file(let content): "\(content.name)\(Self.advice(content, file: name))"
        case .prettyPrintedJSON:
            "JSON over several lines, expected one object per line; \(Self.convert(name, "jq -c .", to: "jsonl"))"
        case .jsonArray(.tokens):
            "a JSON array, expected one token per line; \(Self.convert(name, "jq -r '.[]'", to: "tokens"))"
        case .jsonArray:
            "a JSON array, expected one object per line; \(Self.convert(name, "jq -c '.[]'", to: "jsonl"))"
        case .jsonLinesInsteadOfTokens:
            "JSON lines, expected one token per line; \(Self.convert(name, "jq -r .token", to: "tokens"))"
        }
    }

    /// What follows the name of a kind of content.
    private static func advice(_ content: FileContent, file name: String?) -> String {
        switch content {
        case .utf16(let order): ", expected UTF-8; \(self.convert(name, "iconv -f UTF-16\(order) -t UTF-8"))"
        case .utf32: ", expected UTF-8; \(self.convert(name, "iconv -f UTF-32 -t UTF-8"))"
        case .credentials: ", expected a batch; did you mean --certificate?"
        case .xml, .binaryPropertyList: ", expected a batch; convert it to JSON lines or CSV"
        case .htmlPage: ", expected a batch; check where the file came from"
        case .zip: ", expected text; unpack it, or export the sheet as CSV"
        // A batch may be compressed once.
        case .compressed("gzip", let tool): " inside gzip data; \(self.convert(name, tool))"
        case .compressed(_, let tool): ", expected text or gzip; \(self.convert(name, tool))"
        case .sqlite: ", expected a batch; export the table as CSV: sqlite3 -header -csv"
        case .binary: ", expected a batch of text lines"
        default: ", expected a batch"
        }
    }

    /// The command line that converts a file.
    ///
    /// - Parameters:
    ///   - name: the file; `nil` for standard input.
    ///   - command: the program that converts it, with its options.
    ///   - suffix: the extension of the result; `nil` for that of the file.
    /// - Returns: the advice.
    private static func convert(_ name: String?, _ command: String, to suffix: String? = nil) -> String {
        guard let name, self.isPlain(name), !name.hasPrefix("-") else { return "convert it with: \(command)" }
        let folder = name.lastIndex(of: "/").map { name[...$0] } ?? ""
        var parts = name.dropFirst(folder.count).split(separator: ".")
        if parts.count > 1, ["gz", "zst", "bz2", "xz"].contains(parts.last) { parts.removeLast() }
        let extensions = suffix.map { [Substring($0)] } ?? Array(parts.dropFirst())
        let stem = folder + (parts.first ?? "batch")
        var target = ([stem] + extensions).joined(separator: ".")
        if target == name { target = (["\(stem)-converted"] + extensions).joined(separator: ".") }
        let isCompressed = name.hasSuffix(".gz")
        return "convert it: " + (isCompressed ? "zcat \(name) | \(command)" : "\(command) \(name)") + " > \(target)"
    }

    /// Whether a shell takes a name as it is.
    private static func isPlain(_ name: String) -> Bool {
        name.utf8.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "/._-+,@".utf8.contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
        }
    }
}
