// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSCertificates
import APNSJSON

/// What a command expects to read.
package enum InputExpectation: Hashable, Sendable {
    /// Text that need not consist of lines.
    case document
    /// One payload.
    case payload
    /// Lines with a payload each.
    case payloads
    /// Lines of a batch; of any format if `nil`.
    case batch(BatchFormat?)
    /// `send --tokens`: one token per line.
    case tokens
    /// Lines about dead tokens; of any format if `nil`.
    case deadTokens(BatchFormat?)
    /// `purge forget --tokens`: a token per line, with or without a time after a comma.
    case registrations

    /// What it is, for an error.
    fileprivate var noun: String {
        switch self {
        case .document, .payload: "a payload"
        case .payloads: "one payload per line"
        case .batch: "a batch"
        case .tokens, .registrations: "one device token per line"
        case .deadTokens: "a list of dead tokens"
        }
    }

    /// Whether it consists of lines, and in which format.
    fileprivate var lines: (isLines: Bool, format: BatchFormat?) {
        switch self {
        case .document, .payload: (false, nil)
        case .payloads: (true, .jsonLines)
        case .batch(let format), .deadTokens(let format): (true, format)
        case .tokens, .registrations: (true, .tokens)
        }
    }
}

/// A kind of content that is not a batch, by its first bytes.
///
/// A file that is not a batch would otherwise produce an error for each line, none of which describes the mistake.
enum UnexpectedContent: Error, Hashable {
    case file(FileContent)
    case prettyPrintedJSON
    case jsonArray(BatchFormat?)
    case objectsWithCommas
    case jsonLinesInsteadOfTokens
    /// With the command that extracts the tokens, if there is no header.
    case csvInsteadOfTokens(extraction: String?)
    case csvInsteadOfPayload
    /// Lines of one format where the name of the file or an option says that they have another.
    case otherFormat(BatchFormat, expected: BatchFormat)
    case oldLineEnds
    case tar

    /// The number of bytes that decide; the first line decides earlier.
    static let prefixByteCount = 4096

    /// Whether a prefix of the content decides, so that the result does not depend on how many bytes a read returns.
    static func isEnough(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if bytes.count >= self.prefixByteCount { return true }
        // The first line that is not blank is complete. A stream may pause after it, however short it is.
        let (line, hasEnd) = unsafe self.firstLine(bytes)
        guard hasEnd else { return false }
        return unsafe bytes.count >= self.signatureByteCount || line.allSatisfy { (0x09..<0x7F).contains($0) }
    }

    /// The number of bytes of the longest signature.
    private static let signatureByteCount = 16
    /// Where a tar archive has its signature.
    private static let tarSignatureOffset = 257

    /// Recognizes content; `nil` if the command may be able to read it.
    init?(_ bytes: UnsafeRawBufferPointer, expecting expectation: InputExpectation) {
        let prefix = unsafe UnsafeRawBufferPointer(rebasing: bytes.prefix(Self.prefixByteCount))
        if unsafe prefix.dropFirst(Self.tarSignatureOffset).starts(with: "ustar".utf8) {
            self = .tar
            return
        }
        if let content = unsafe FileContent(beginning: Array(prefix)) {
            self = .file(content)
            return
        }
        let (text, hasEnd) = unsafe Self.firstLine(prefix)
        // Fewer bytes than were asked for end with the content, and a longer line is cut anywhere.
        let isWhole = hasEnd || prefix.count < Self.prefixByteCount
        if let content = unsafe FileContent(firstLine: Array(text)) {
            self = .file(content)
            return
        }
        let (isLines, format) = expectation.lines
        // In JSON, CR is white space.
        if isLines, unsafe text.contains(0x0D), unsafe !prefix.contains(0x0A) {
            self = .oldLineEnds
        } else if isLines, let content = unsafe Self.json(text, isWhole, format) {
            self = content
        } else if isLines, format == .tokens, unsafe Self.isCSV(text, expectation) {
            self = unsafe .csvInsteadOfTokens(extraction: CSVHeader.extraction(for: text))
        } else if let content = unsafe Self.otherFormat(text, isWhole, expectation) {
            self = content
        } else if [.payload, .payloads].contains(expectation), unsafe Self.isBatch(text) {
            self = .csvInsteadOfPayload
        } else {
            return nil
        }
    }

    // MARK: Text

    /// The first line that is not blank, and whether its end is there.
    private static func firstLine(_ bytes: UnsafeRawBufferPointer) -> (line: UnsafeRawBufferPointer, hasEnd: Bool) {
        var rest = unsafe bytes[...]
        if unsafe rest.starts(with: [0xEF, 0xBB, 0xBF]) { unsafe rest = unsafe rest.dropFirst(3) }
        while true {
            let line = unsafe UnsafeRawBufferPointer(rebasing: rest.prefix { $0 != 0x0A }).trimmed
            guard let end = unsafe rest.firstIndex(of: 0x0A) else { return unsafe (line, false) }
            if unsafe !line.isEmpty { return unsafe (line, true) }
            unsafe rest = unsafe rest[(end + 1)...]
        }
    }

    private static func json(_ line: UnsafeRawBufferPointer, _ isWhole: Bool, _ format: BatchFormat?) -> Self? {
        guard format != .csv, let first = unsafe line.first, let last = unsafe line.last else { return nil }
        if first == UInt8(ascii: "[") { return .jsonArray(format) }
        guard isWhole, first == UInt8(ascii: "{") else { return nil }
        if last == UInt8(ascii: ","), unsafe self.isObject(line.dropLast()) { return .objectsWithCommas }
        // The line of an object ends with its brace.
        if "{[,:".utf8.contains(last) { return .prettyPrintedJSON }
        return format == .tokens && last == UInt8(ascii: "}") ? .jsonLinesInsteadOfTokens : nil
    }

    /// Whether a first line is that of CSV, not a token.
    private static func isCSV(_ line: UnsafeRawBufferPointer, _ expectation: InputExpectation) -> Bool {
        let format = unsafe BatchFormat(firstLine: line) { name in
            // No token has these letters.
            unsafe ColumnName(name).text?.lowercased().contains("token") ?? false
        }
        // A time may follow the token of a registration.
        if expectation == .registrations, unsafe CSVHeader.extraction(for: line) != nil { return false }
        let trimmed = unsafe line.trimmed
        let isSeparatorLast = unsafe trimmed.last.map { ",;".utf8.contains($0) } ?? false
        let isToken = unsafe BatchProblem.Kind.token(line)
        return format == .csv && isToken != .severalTokens && !(isSeparatorLast && isToken == .textAfterToken)
    }

    /// Recognizes lines of a batch in another format than the expected one.
    private static func otherFormat(
        _ line: UnsafeRawBufferPointer,
        _ isWhole: Bool,
        _ expectation: InputExpectation
    ) -> Self? {
        let expected: BatchFormat
        switch expectation {
        case .batch(let format?), .deadTokens(let format?): expected = format
        default: return nil
        }
        let found = unsafe BatchFormat(firstLine: line) { unsafe BatchColumn($0) != nil }
        switch (expected, found) {
        case (.jsonLines, .csv), (.jsonLines, .tokens):
            // A list of dead tokens may begin with a comment.
            guard unsafe line.first != UInt8(ascii: "#") && Self.isBatch(line) else { return nil }
        case (.csv, .jsonLines):
            guard unsafe isWhole && line.first == UInt8(ascii: "{") && Self.isObject(line[...]) else { return nil }
        default: return nil
        }
        return .otherFormat(found, expected: expected)
    }

    /// Whether a line is a CSV header of a batch, or a token.
    private static func isBatch(_ line: UnsafeRawBufferPointer) -> Bool {
        // A payload may contain an array of texts that look like tokens.
        if let first = unsafe line.first, "{[".utf8.contains(first) { return false }
        var isHeader: Bool {
            let header = unsafe CSVHeader(line) { unsafe BatchColumn($0) != nil }
            return unsafe header?.names.contains { unsafe [.token, .payload].contains(BatchColumn($0)) } ?? false
        }
        return unsafe CSVHeader.extraction(for: line) != nil || isHeader
    }

    /// Whether a text is one whole JSON object.
    private static func isObject(_ text: UnsafeRawBufferPointer.SubSequence) -> Bool {
        var scanner = unsafe JSONScanner(UnsafeRawBufferPointer(rebasing: text))
        do throws(ScanFailure) {
            try scanner.begin()
            try scanner.skipValue(enclosedBy: 0)
            try scanner.finish()
            return true
        } catch {
            return false
        }
    }

    // MARK: Description

    /// What it is, and what to do about it.
    ///
    /// Returns a part of an error.
    func advice(expecting expectation: InputExpectation, file name: String?) -> String {
        switch self {
        case .file(let content): "\(content.name)\(Self.advice(content, expectation, file: name))"
        case .prettyPrintedJSON:
            "JSON over several lines, expected one object per line; \(Self.convert(name, "jq -c .", to: "jsonl"))"
        case .jsonArray(.tokens):
            "a JSON array, expected one token per line; \(Self.convert(name, "jq -r '.[]'", to: "tokens"))"
        case .jsonArray:
            "a JSON array, expected one object per line; \(Self.convert(name, "jq -c '.[]'", to: "jsonl"))"
        case .jsonLinesInsteadOfTokens:
            "JSON lines, expected one token per line; \(Self.convert(name, "jq -r .token", to: "tokens"))"
        case .objectsWithCommas:
            "JSON with a comma after each object, expected one object per line; "
                + Self.convert(name, "sed 's/,$//'", to: "jsonl")
        case .oldLineEnds: "text with CR at the ends of lines, expected LF; \(Self.convert(name, "tr '\\r' '\\n' <"))"
        case .tar: "a tar archive, expected \(expectation.noun); unpack it"
        case .otherFormat(let found, let expected):
            "\(found.noun), expected \(expected.noun); use --format \(found.rawValue)"
        case .csvInsteadOfPayload:
            "a batch of CSV or tokens, expected \(expectation.noun) in JSON; to check a batch, use: send --dry-run"
        case .csvInsteadOfTokens(let extraction?):
            "CSV, expected one device token per line; \(Self.convert(name, extraction, to: "tokens"))"
        case .csvInsteadOfTokens where expectation == .registrations:
            "CSV with a header, expected TOKEN or TOKEN,TIME in each line; remove the header"
        case .csvInsteadOfTokens where expectation == .tokens:
            "CSV, expected one device token per line; to read its columns, leave out --tokens: \(Self.send(name))"
        case .csvInsteadOfTokens: "CSV, expected one device token per line; to read its columns, add --format csv"
        }
    }

    /// The command that sends a file of CSV.
    private static func send(_ name: String?) -> String {
        let name = name.map { self.isPlain($0) && !$0.hasPrefix("-") ? $0 : "FILE" } ?? "-"
        return BatchFormat(fileName: name) == .csv ? "send \(name)" : "send --format csv \(name)"
    }

    /// What follows the name of a kind of content.
    private static func advice(
        _ content: FileContent,
        _ expectation: InputExpectation,
        file name: String?
    ) -> String {
        let expected = ", expected \(expectation.noun)"
        switch content {
        case .utf16(let order): return ", expected UTF-8; \(self.convert(name, "iconv -f UTF-16\(order) -t UTF-8"))"
        case .utf32: return ", expected UTF-8; \(self.convert(name, "iconv -f UTF-32 -t UTF-8"))"
        case .credentials:
            let isSent = if case .batch = expectation { true } else { expectation == .tokens }
            return expected + (isSent ? "; did you mean --certificate?" : "")
        case .xml, .binaryPropertyList:
            guard case .batch = expectation else { return expected }
            return "\(expected); convert it to JSON lines or CSV"
        case .htmlPage: return "\(expected); check where the file came from"
        case .zip: return ", expected text; unpack it, or export the sheet as CSV"
        // A batch may be compressed once.
        case .compressed("gzip", let tool): return " inside gzip data; \(self.convert(name, tool))"
        case .compressed(_, let tool): return ", expected text or gzip; \(self.convert(name, tool))"
        case .sqlite: return "\(expected); export the table as CSV: sqlite3 -header -csv"
        default: return expected
        }
    }

    /// The command line that converts a file.
    private static func convert(_ name: String?, _ command: String, to suffix: String? = nil) -> String {
        let plainCommand = command.hasSuffix(" <") ? String(command.dropLast(2)) : command
        guard let name, self.isPlain(name), !name.hasPrefix("-") else { return "convert it with: \(plainCommand)" }
        let folder = name.lastIndex(of: "/").map { name[...$0] } ?? ""
        var parts = name.dropFirst(folder.count).split(separator: ".")
        if parts.count > 1, ["gz", "zst", "bz2", "xz"].contains(parts.last) { parts.removeLast() }
        let extensions = suffix.map { [Substring($0)] } ?? Array(parts.dropFirst())
        let stem = folder + (parts.first ?? "batch")
        var target = ([stem] + extensions).joined(separator: ".")
        if target == name { target = (["\(stem)-converted"] + extensions).joined(separator: ".") }
        let isCompressed = name.hasSuffix(".gz")
        return "convert it: " + (isCompressed ? "zcat \(name) | \(plainCommand)" : "\(command) \(name)")
            + " > \(target)"
    }

    /// Whether a shell takes a name as it is.
    private static func isPlain(_ name: String) -> Bool {
        name.utf8.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "/._-+,@".utf8.contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
        }
    }
}
