// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// The fields of one row of CSV, in order.
///
/// - SeeAlso: RFC 4180, section 2.
@safe package struct CSVFields {
    /// One field.
    @safe package struct Field {
        /// The bytes, without the quotes around them.
        package let bytes: UnsafeRawBufferPointer
        /// Whether the bytes contain doubled quotes.
        package let hasDoubledQuotes: Bool

        /// Writes the bytes with one quote for each doubled quote; `target` must have room for all of them.
        package func unquoted(into target: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
            var count = 0
            var index = 0
            // A word at a time. What is written after a quote is overwritten, and never overtakes what is read.
            while unsafe index + 8 <= self.bytes.count {
                let word = unsafe self.bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                unsafe target.storeBytes(of: word, toByteOffset: count, as: UInt64.self)
                let plainCount = CSVFields.plainByteCount(UInt64(littleEndian: word))
                count += plainCount
                index += plainCount
                if plainCount < 8 {
                    count += 1
                    index += 2
                }
            }
            while unsafe index < self.bytes.count {
                let byte = unsafe self.bytes[index]
                unsafe target[count] = byte
                count += 1
                index += byte == UInt8(ascii: "\"") ? 2 : 1
            }
            return unsafe UnsafeRawBufferPointer(rebasing: target[..<count])
        }
    }

    /// A quote where none is allowed.
    package struct MisplacedQuote: Error {}

    private let row: UnsafeRawBufferPointer
    private let separator: UInt8
    private var index = 0
    private var isAtEnd = false

    /// Reads a row.
    package init(_ row: UnsafeRawBufferPointer, separator: UInt8 = UInt8(ascii: ",")) {
        unsafe self.row = unsafe row
        self.separator = separator
    }

    /// The next field; `nil` after the last one.
    package mutating func next() -> Result<Field, MisplacedQuote>? {
        guard !self.isAtEnd else { return nil }
        let field =
            unsafe self.index < self.row.count && self.row[self.index] == UInt8(ascii: "\"")
            ? self.quoted() : self.plain()
        guard let field else {
            self.isAtEnd = true
            return .failure(MisplacedQuote())
        }
        if unsafe self.index < self.row.count {
            self.index += 1
        } else {
            self.isAtEnd = true
        }
        return .success(field)
    }

    /// The number of bytes of a word before its first quote, from the lowest byte.
    @inline(__always)
    static func plainByteCount(_ word: UInt64) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
        return ((quotes &- ones) & ~quotes & (ones &* 0x80)).trailingZeroBitCount / 8
    }

    private mutating func plain() -> Field? {
        let first = self.index
        while unsafe self.index < self.row.count, unsafe self.row[self.index] != self.separator {
            guard unsafe self.row[self.index] != UInt8(ascii: "\"") else { return nil }
            self.index += 1
        }
        return unsafe Field(
            bytes: UnsafeRawBufferPointer(rebasing: self.row[first..<self.index]),
            hasDoubledQuotes: false
        )
    }

    private mutating func quoted() -> Field? {
        self.index += 1
        let first = self.index
        var hasDoubledQuotes = false
        while unsafe self.index < self.row.count {
            if unsafe self.index + 8 <= self.row.count {
                let word = unsafe self.row.loadUnaligned(fromByteOffset: self.index, as: UInt64.self)
                self.index += Self.plainByteCount(UInt64(littleEndian: word))
            }
            guard unsafe self.index < self.row.count else { break }
            guard unsafe self.row[self.index] == UInt8(ascii: "\"") else {
                self.index += 1
                continue
            }
            let next = self.index + 1
            if unsafe next < self.row.count, unsafe self.row[next] == UInt8(ascii: "\"") {
                hasDoubledQuotes = true
                self.index += 2
                continue
            }
            guard unsafe next == self.row.count || self.row[next] == self.separator else { return nil }
            let bytes = unsafe UnsafeRawBufferPointer(rebasing: self.row[first..<self.index])
            self.index = next
            return unsafe Field(bytes: bytes, hasDoubledQuotes: hasDoubledQuotes)
        }
        return nil
    }
}

extension CSVFields.Field {
    /// The text without quotes and white space around it; the bytes are UTF-8.
    var text: String {
        guard self.hasDoubledQuotes else { return unsafe String(decoding: self.bytes.trimmed, as: UTF8.self) }
        return unsafe withUnsafeTemporaryAllocation(byteCount: self.bytes.count, alignment: 8) { target in
            unsafe String(decoding: self.unquoted(into: target).trimmed, as: UTF8.self)
        }
    }

    /// Writes the text as a JSON string.
    ///
    /// Returns whether the text is UTF-8.
    func writeString(to json: inout JSONWriter) -> Bool {
        let first = json.byteCount
        json.append(UInt8(ascii: "\""))
        var isPreviousQuote = false
        for index in unsafe self.bytes.indices {
            let byte = unsafe self.bytes[index]
            if self.hasDoubledQuotes, byte == UInt8(ascii: "\""), !isPreviousQuote {
                isPreviousQuote = true
                continue
            }
            isPreviousQuote = false
            json.appendEscaped(byte)
        }
        json.append(UInt8(ascii: "\""))
        var scanner = unsafe JSONScanner(UnsafeRawBufferPointer(rebasing: json.bytes[first...]))
        do throws(ScanFailure) { _ = try scanner.string() } catch { return false }
        return true
    }
}
