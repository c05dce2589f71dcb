// SPDX-License-Identifier: Apache-2.0

/// Finds where the frames of a byte stream end, without keeping or judging what is in them.
///
/// It follows announced lengths alone, so that a frame that breaks a limit can be passed over and those behind it
/// counted. It holds a few integers whatever is announced. Behind a byte that is no command, nothing can be told apart
/// any more: the stream ``isLost``.
public struct FrameSkipper: Hashable, Sendable {
    /// A field whose value is a length.
    private enum LengthField: Hashable { case token, payload, frame }

    private enum State: Hashable {
        /// The next byte is a command.
        case command
        /// Bytes to pass over before a length field.
        case fields(byteCountLeft: Int, before: LengthField)
        /// Bytes of a length field that are still to come, and the value of those before them.
        case length(LengthField, byteCountLeft: Int, value: Int)
        /// Bytes of the token.
        case token(byteCountLeft: Int)
        /// Bytes up to the end of the frame.
        case rest(byteCountLeft: Int)
        case lost
    }

    private var state = State.command

    /// Starts where a frame starts.
    public init() {}

    /// Whether the next byte begins a frame.
    public var isAtFrameStart: Bool { self.state == .command }

    /// Whether a byte came where a command was due, and was none.
    public var isLost: Bool { self.state == .lost }

    /// Passes over bytes up to the end of the frame they belong to.
    ///
    /// - Parameter bytes: the next bytes of the stream.
    /// - Returns: how many of them belong to the frame: up to its end, which ``isAtFrameStart`` tells, or all. Where
    ///   the stream is lost, 0.
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
                    case .simple: .length(.token, byteCountLeft: 2, value: 0)
                    case .enhanced: .fields(byteCountLeft: 8, before: .token)
                    case .items: .length(.frame, byteCountLeft: 4, value: 0)
                    }
            case .fields(let left, let next):
                let count = min(left, bytes.count - offset)
                offset += count
                self.state =
                    count == left
                    ? .length(next, byteCountLeft: 2, value: 0) : .fields(byteCountLeft: left - count, before: next)
            case .length(let field, let left, let before):
                // Four bytes at most, so that the value stays far below the largest integer.
                let value = before << 8 | Int(unsafe bytes[offset])
                offset += 1
                self.state = left > 1 ? .length(field, byteCountLeft: left - 1, value: value) : Self.state(field, value)
            case .token(let left):
                let count = min(left, bytes.count - offset)
                offset += count
                self.state =
                    count == left
                    ? .length(.payload, byteCountLeft: 2, value: 0) : .token(byteCountLeft: left - count)
            case .rest(let left):
                let count = min(left, bytes.count - offset)
                offset += count
                self.state = count == left ? .command : .rest(byteCountLeft: left - count)
            }
            if self.state == .command { return offset }
        }
        return offset
    }

    /// What follows a length field.
    private static func state(_ field: LengthField, _ value: Int) -> State {
        switch field {
        case .token: value > 0 ? .token(byteCountLeft: value) : .length(.payload, byteCountLeft: 2, value: 0)
        case .payload, .frame: value > 0 ? .rest(byteCountLeft: value) : .command
        }
    }
}

/// Counts the frames of bytes that are thrown away.
public struct DiscardedFrameCounter: Hashable, Sendable {
    private var skipper = FrameSkipper()

    /// Whole frames.
    public private(set) var frameCount = 0
    /// Bytes that cannot be told apart as frames, because a byte before them was no command.
    public private(set) var unparsedByteCount = 0

    /// Starts where a frame starts, with nothing counted.
    public init() {}

    /// Counts the frames that end in the next bytes.
    ///
    /// - Parameter bytes: the next bytes of the stream, split anywhere.
    /// - Returns: how many frames end in them.
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
