// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import SystemPackage

/// A file of a folder of outcomes; the names sort in the order of the outcomes.
struct OutcomeSegment: Hashable, Sendable {
    private static let prefix = "outcomes-"
    private static let suffix = ".jsonl"
    private static let openSuffix = ".jsonl.open"
    private static let digitCount = 16

    /// The number of its first outcome, which it may not contain yet.
    var firstNumber: UInt64
    /// Whether lines are still appended.
    var isOpen: Bool

    init(firstNumber: UInt64, isOpen: Bool) {
        self.firstNumber = firstNumber
        self.isOpen = isOpen
    }

    /// Reads a name; `nil` if it is not that of a segment.
    init?(name: String) {
        let isOpen = name.hasSuffix(Self.openSuffix)
        guard name.hasPrefix(Self.prefix), isOpen || name.hasSuffix(Self.suffix) else { return nil }
        let end = isOpen ? Self.openSuffix.utf8.count : Self.suffix.utf8.count
        let digits = name.dropFirst(Self.prefix.count).dropLast(end)
        guard digits.utf8.count == Self.digitCount, let number = UInt64(digits) else { return nil }
        self.init(firstNumber: number, isOpen: isOpen)
        // `UInt64` also reads a plus sign.
        guard self.name == name else { return nil }
    }

    var name: String {
        let digits = String(self.firstNumber)
        let zeros = String(repeating: "0", count: max(0, Self.digitCount - digits.utf8.count))
        return Self.prefix + zeros + digits + (self.isOpen ? Self.openSuffix : Self.suffix)
    }

    /// The segments in a folder, in the order of the outcomes.
    static func all(in folder: String) throws(Errno) -> [OutcomeSegment] {
        try Folder.names(in: folder).compactMap { OutcomeSegment(name: $0) }
            .sorted { ($0.firstNumber, $0.isOpen ? 1 : 0) < ($1.firstNumber, $1.isOpen ? 1 : 0) }
    }
}

/// Reads the lines of a segment.
struct OutcomeSegmentReader: Sendable {
    /// An open file, which is closed when its last reader is released.
    private final class File: Sendable {
        let descriptor: FileDescriptor

        init(_ path: String) throws(Errno) { self.descriptor = try .opened(path, O_RDONLY | O_NOFOLLOW) }

        deinit { Glibc.close(self.descriptor.rawValue) }
    }

    /// What is read next.
    enum Item {
        case line(OutcomeLine, ArraySlice<UInt8>)
        /// A line that is not as it was written, at this offset.
        case damage(UInt64)
        /// No more whole lines.
        case end
    }

    /// The maximum size of a line in bytes, which is more than any has.
    static let lineByteCountMax = 1 << 20
    private static let pieceByteCount = 64 * 1024

    let segment: OutcomeSegment
    private let file: File
    /// Where the first line begins that was not returned.
    private(set) var offset: UInt64 = 0
    /// Where the bytes in the file begin that are not in the buffer yet.
    private var readOffset: UInt64 = 0
    private var buffer: [UInt8] = []
    /// Where it begins in the buffer.
    private var index = 0
    /// How much of the buffer is known to be without a line feed.
    private var searched = 0

    init(_ segment: OutcomeSegment, in folder: String) throws(Errno) {
        self.segment = segment
        self.file = try File("\(folder)/\(segment.name)")
    }

    mutating func next() throws(Errno) -> Item {
        while true {
            if let end = self.buffer[self.searched...].firstIndex(of: UInt8(ascii: "\n")) {
                let (line, start) = (self.buffer[self.index..<end], self.offset)
                self.offset = self.readOffset - UInt64(self.buffer.count - end - 1)
                (self.index, self.searched) = (end + 1, end + 1)
                return OutcomeLine(line).map { .line($0, line) } ?? .damage(start)
            }
            self.searched = self.buffer.count
            guard try self.fill() else { return .end }
        }
    }

    /// Reads more; returns whether there is more.
    private mutating func fill() throws(Errno) -> Bool {
        let keptCount = self.buffer.count - self.index
        if keptCount > Self.lineByteCountMax {
            // Without a line feed for so long, the beginning says nothing: it is one damaged line with what follows.
            self.buffer.removeFirst(keptCount - 1)
        } else {
            self.buffer.removeFirst(self.index)
        }
        (self.index, self.searched) = (0, self.buffer.count)
        var piece = [UInt8](repeating: 0, count: Self.pieceByteCount)
        let count = unsafe pread(self.file.descriptor.rawValue, &piece, piece.count, off_t(self.readOffset))
        guard count >= 0 else { throw .current }
        self.buffer += piece[..<count]
        self.readOffset += UInt64(count)
        return count > 0
    }
}
