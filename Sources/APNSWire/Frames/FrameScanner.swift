// SPDX-License-Identifier: Apache-2.0

/// Iterates over frames that ``FrameEncoder`` wrote, to find one or to renumber them.
///
/// Use it only for frames of this process: it trusts their lengths within the bounds of the memory, and stops at the
/// first frame that is not completely inside it.
public enum FrameScanner {
    /// The position and size of a frame.
    public struct Frame: Hashable, Sendable {
        /// Bytes before the frame.
        public var offset: Int
        /// Bytes of the frame.
        public var byteCount: Int
        /// Bytes before its token.
        public var tokenOffset: Int
        /// Bytes of its token.
        public var tokenByteCount: Int
    }

    /// The frame that begins at an offset.
    ///
    /// - Parameters:
    ///   - offset: bytes before the frame.
    ///   - memory: consecutive frames.
    /// - Returns: the frame, or `nil` at the end of the memory.
    public static func frame(at offset: Int, in memory: UnsafeRawBufferPointer) -> Frame? {
        guard offset >= 0, offset < memory.count, let command = Command(rawValue: unsafe memory[offset]) else {
            return nil
        }
        let tokenLengthOffset = offset + command.tokenLengthOffset
        guard tokenLengthOffset + 2 <= memory.count else { return nil }
        let tokenCount = Int(unsafe memory.bigEndianInteger(at: tokenLengthOffset) as UInt16)
        let tokenOffset = tokenLengthOffset + 2
        let byteCount: Int
        if command == .items {
            byteCount = Int(unsafe memory.bigEndianInteger(at: offset + 1) as UInt32) + 5
        } else {
            guard tokenOffset + tokenCount + 2 <= memory.count else { return nil }
            let payloadCount = Int(unsafe memory.bigEndianInteger(at: tokenOffset + tokenCount) as UInt16)
            byteCount = tokenOffset + tokenCount + 2 + payloadCount - offset
        }
        guard offset + byteCount <= memory.count, tokenOffset + tokenCount <= offset + byteCount else { return nil }
        return Frame(
            offset: offset,
            byteCount: byteCount,
            tokenOffset: tokenOffset,
            tokenByteCount: tokenCount
        )
    }

    /// The offset after a number of frames.
    ///
    /// - Parameters:
    ///   - count: the number of frames to skip.
    ///   - start: the offset of the first of them.
    ///   - memory: consecutive frames.
    /// - Returns: the offset after the last of them, or the end of the last complete frame if there are fewer.
    public static func offset(passing count: Int, from start: Int = 0, in memory: UnsafeRawBufferPointer) -> Int {
        var offset = start
        for _ in 0..<count {
            guard let frame = unsafe FrameScanner.frame(at: offset, in: memory) else { break }
            offset += frame.byteCount
        }
        return offset
    }

    /// Numbers the frames: `first` for the first, counting up for the following ones.
    ///
    /// Frames of command 0 have no identifier; they are unchanged, but counted.
    ///
    /// - Parameters:
    ///   - memory: consecutive frames in the layout of ``FrameEncoder``.
    ///   - first: the identifier of the first frame.
    /// - Returns: the number of frames.
    @discardableResult
    public static func number(_ memory: UnsafeMutableRawBufferPointer, from first: UInt32) -> Int {
        var offset = 0
        var count = 0
        let readable = UnsafeRawBufferPointer(memory)
        while let frame = unsafe FrameScanner.frame(at: offset, in: readable) {
            let identifier = (first &+ UInt32(truncatingIfNeeded: count)).bigEndian
            if let identifierOffset = Command(rawValue: unsafe memory[offset])?.identifierOffset {
                unsafe memory.storeBytes(of: identifier, toByteOffset: offset + identifierOffset, as: UInt32.self)
            }
            offset += frame.byteCount
            count += 1
        }
        return count
    }
}
