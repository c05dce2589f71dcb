// SPDX-License-Identifier: Apache-2.0

/// Finds the ends of the frames in a byte stream without storing or validating their content.
///
/// It follows announced lengths only, so it can skip a frame that exceeds a limit and count the frames after it. Its
/// memory is constant, whatever is announced. After a byte that is not a command, frame boundaries are unknown:
/// the stream ``isLost``.
public struct FrameSkipper: Hashable, Sendable {
    /// A field whose value is a length.
    private enum LengthField: Hashable { case token, payload, frame }

    private enum State: Hashable {
        /// The next byte is a command.
        case command
        /// Bytes to skip before a length field.
        case fields(remainingByteCount: Int, before: LengthField)
        /// Remaining bytes of a length field, and the value of those already read.
        case length(LengthField, remainingByteCount: Int, value: Int)
        /// Bytes of the token.
        case token(remainingByteCount: Int)
        /// Bytes up to the end of the frame.
        case rest(remainingByteCount: Int)
        case lost
    }

    private var state = State.command

    /// Creates a skipper at the start of a frame.
    public init() {}

    /// Whether the next byte begins a frame.
    public var isAtFrameStart: Bool { self.state == .command }

    /// Whether the skipper found a byte that is not a command at the start of a frame.
    public var isLost: Bool { self.state == .lost }

    /// Skips bytes up to the end of the current frame.
    ///
    /// - Parameter bytes: the next bytes of the stream.
    /// - Returns: how many of them belong to the frame: up to its end, after which ``isAtFrameStart`` is true, or all.
    ///   If the stream is lost, 0.
    public mutating func skip(_ bytes: UnsafeRawBufferPointer) -> Int {
        var offset = 0
        while offset < bytes.count {
            switch self.state {
            case .lost: return offset
            case .command:
                guard let command = Command(rawValue: unsafe bytes[offset]) else {
                    self.state = .lost
                    return offset
                }
                offset += 1
                self.state =
                    switch command {
                    case .simple: .length(.token, remainingByteCount: 2, value: 0)
                    case .enhanced: .fields(remainingByteCount: 8, before: .token)
                    case .items: .length(.frame, remainingByteCount: 4, value: 0)
                    }
            case .fields(let left, let next):
                let count = min(left, bytes.count - offset)
                offset += count
                self.state =
                    count == left
                    ? .length(next, remainingByteCount: 2, value: 0)
                    : .fields(remainingByteCount: left - count, before: next)
            case .length(let field, let left, let before):
                // At most four bytes, so the value cannot overflow.
                let value = before << 8 | Int(unsafe bytes[offset])
                offset += 1
                self.state =
                    left > 1 ? .length(field, remainingByteCount: left - 1, value: value) : Self.state(field, value)
            case .token(let left):
                let count = min(left, bytes.count - offset)
                offset += count
                self.state =
                    count == left
                    ? .length(.payload, remainingByteCount: 2, value: 0) : .token(remainingByteCount: left - count)
            case .rest(let left):
                let count = min(left, bytes.count - offset)
                offset += count
                self.state = count == left ? .command : .rest(remainingByteCount: left - count)
            }
            if self.state == .command { return offset }
        }
        return offset
    }

    /// The state after a length field.
    private static func state(_ field: LengthField, _ value: Int) -> State {
        switch field {
        case .token: value > 0 ? .token(remainingByteCount: value) : .length(.payload, remainingByteCount: 2, value: 0)
        case .payload, .frame: value > 0 ? .rest(remainingByteCount: value) : .command
        }
    }
}

/// Counts frames in discarded bytes.
public struct DiscardedFrameCounter: Hashable, Sendable {
    private var skipper = FrameSkipper()

    /// Complete frames.
    public private(set) var frameCount = 0
    /// Bytes after one that is not a command, which cannot be split into frames.
    public private(set) var unparsedByteCount = 0

    /// Whether the next byte begins a frame.
    public var isAtFrameStart: Bool { self.skipper.isAtFrameStart }

    /// Creates a counter at the start of a frame.
    public init() {}

    /// Returns how many of the next bytes belong to a frame that began before them.
    ///
    /// - Parameter bytes: the next bytes of the stream.
    /// - Returns: 0 at the start of a frame.
    public func byteCountToFrameEnd(in bytes: UnsafeRawBufferPointer) -> Int {
        var skipper = self.skipper
        return skipper.isAtFrameStart ? 0 : unsafe skipper.skip(bytes)
    }

    /// Counts the frames that end in these bytes.
    ///
    /// - Parameter bytes: the next bytes of the stream, split anywhere.
    /// - Returns: how many frames end in these bytes.
    @discardableResult
    public mutating func count(_ bytes: UnsafeRawBufferPointer) -> Int {
        let before = self.frameCount
        var offset = 0
        while offset < bytes.count {
            guard !self.skipper.isLost else { break }
            offset += unsafe self.skipper.skip(UnsafeRawBufferPointer(rebasing: bytes[offset...]))
            if self.skipper.isAtFrameStart { self.frameCount += 1 }
        }
        self.unparsedByteCount += bytes.count - offset
        return self.frameCount - before
    }
}
