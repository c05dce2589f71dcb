// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import NIOConcurrencyHelpers

/// The octets of a batch: of a file, read when they are wanted, or of a stream, read by a thread of its own.
///
/// A file is read where the octets are needed, since reading from the page cache is quicker than handing over; reading
/// a pipe may wait, and an event loop must not.
final class SendInput: Sendable {
    /// What came of asking for octets.
    enum Portion: Equatable {
        case octets(Int)
        case later
        case end
    }

    private struct State: Sendable {
        var portions: [[UInt8]] = []
        var taken = 0
        var isEnded = false
        var error: CInt?
        var wake: @Sendable () -> Void = {}
        var isThreadStarted = false
        var isAbandoned = false
    }

    let name: String
    let octetCountTotal: UInt64?
    private let descriptor: CInt
    private let isStream: Bool
    private let state = NIOLockedValueBox(State())
    /// 1 while the thread may read on.
    private let room = ConditionLock(value: 1)

    /// So many portions of a stream are read ahead, each of so many octets at most.
    private static let portionCountMax = 8
    private static let portionOctetCountMax = 262_144

    /// Opens a file, or standard input where the path is `-`.
    init(path: String) throws {
        self.name = path == "-" ? "standard input" : path
        self.descriptor = path == "-" ? 0 : open(path, O_RDONLY | O_CLOEXEC)
        guard self.descriptor >= 0 else {
            throw CommandFailure(.noInput, "Cannot read \(path): \(String(cString: strerror(errno))).")
        }
        var status = stat()
        guard fstat(self.descriptor, &status) == 0, status.st_mode & S_IFMT != S_IFDIR else {
            throw CommandFailure(.noInput, "Cannot read \(path): it is a directory.")
        }
        self.isStream = status.st_mode & S_IFMT != S_IFREG
        self.octetCountTotal = self.isStream ? nil : UInt64(max(0, status.st_size))
    }

    deinit {
        if self.descriptor > 0 { close(self.descriptor) }
    }

    /// Whether a path leads to the file that is read.
    func isSameFile(as path: String) -> Bool {
        var (mine, other) = (stat(), stat())
        guard !self.isStream, fstat(self.descriptor, &mine) == 0, stat(path, &other) == 0 else { return false }
        return mine.st_dev == other.st_dev && mine.st_ino == other.st_ino
    }

    /// What to do when a stream has more.
    func whenReady(_ wake: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.wake = wake }
    }

    /// Reads octets of a file without taking them.
    func peek(_ octetCount: Int, at offset: Int = 0) -> [UInt8] {
        guard !self.isStream else { return [] }
        return [UInt8](unsafeUninitializedCapacity: octetCount) { buffer, count in
            count = max(0, pread(self.descriptor, buffer.baseAddress, octetCount, offset))
        }
    }

    /// Counts the lines of a file, without taking any.
    func lineCount() throws -> UInt64 {
        var portion = [UInt8](repeating: 0, count: SendInput.portionOctetCountMax)
        var (count, offset, last): (UInt64, off_t, UInt8) = (0, 0, 0x0A)
        while true {
            let portionCount = pread(self.descriptor, &portion, portion.count, offset)
            if portionCount < 0, errno == EINTR { continue }
            guard portionCount >= 0 else { throw SendInput.failure(self.name, errno) }
            // The last line may have no end.
            guard portionCount > 0 else { return last == 0x0A ? count : count + 1 }
            for octet in portion[..<portionCount] where octet == 0x0A { count += 1 }
            last = portion[portionCount - 1]
            offset += off_t(portionCount)
        }
    }

    /// Puts the next octets into memory, and waits for them where they are not there yet.
    func readNow(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
        do throws(ReadError) {
            return try self.readDescriptor(memory)
        } catch {
            throw SendInput.failure(self.name, error.number)
        }
    }

    /// Puts the next octets into memory.
    func read(into memory: UnsafeMutableRawBufferPointer) throws -> Portion {
        guard self.isStream else {
            let count = try self.readNow(into: memory)
            return count == 0 ? .end : .octets(count)
        }
        let (portion, error) = self.state.withLockedValue { state -> (Portion, CInt?) in
            self.startThread(&state)
            guard let first = state.portions.first else {
                return (state.isEnded ? .end : .later, state.error)
            }
            let count = min(memory.count, first.count - state.taken)
            memory.copyBytes(from: first[state.taken..<(state.taken + count)])
            state.taken += count
            if state.taken == first.count {
                state.portions.removeFirst()
                state.taken = 0
            }
            return (.octets(count), nil)
        }
        if let error { throw SendInput.failure(self.name, error) }
        self.updateRoom()
        return portion
    }

    /// Whether no more is to be read.
    var isAbandoned: Bool { self.state.withLockedValue { $0.isAbandoned } }

    /// Reads no more; the thread ends as soon as the stream lets it.
    func abandon() {
        self.state.withLockedValue { $0.isAbandoned = true }
        self.updateRoom()
    }

    /// The system's number of what went wrong.
    private struct ReadError: Error {
        var number: CInt
    }

    private func readDescriptor(_ memory: UnsafeMutableRawBufferPointer) throws(ReadError) -> Int {
        while true {
            let count = Glibc.read(self.descriptor, memory.baseAddress, memory.count)
            if count >= 0 { return count }
            guard errno == EINTR else { throw ReadError(number: errno) }
        }
    }

    private static func failure(_ name: String, _ error: CInt) -> CommandFailure {
        CommandFailure(.noInput, "Cannot read \(name): \(String(cString: strerror(error))).")
    }

    private func startThread(_ state: inout State) {
        guard !state.isThreadStarted else { return }
        state.isThreadStarted = true
        Thread.detachNewThread { self.readStream() }
    }

    /// Runs on a thread of its own until the stream ends.
    private func readStream() {
        while true {
            var portion = [UInt8](repeating: 0, count: SendInput.portionOctetCountMax)
            let result = portion.withUnsafeMutableBytes { memory in
                Result { () throws(ReadError) in try self.readDescriptor(memory) }
            }
            let (wake, isOver) = self.state.withLockedValue { state -> (@Sendable () -> Void, Bool) in
                switch result {
                case .success(let count) where count > 0:
                    portion.removeLast(portion.count - count)
                    state.portions.append(portion)
                case .success: state.isEnded = true
                case .failure(let error): state.error = error.number
                }
                return (state.wake, state.isEnded || state.error != nil || state.isAbandoned)
            }
            wake()
            if isOver { return }
            self.updateRoom()
            self.room.lock(whenValue: 1)
            self.room.unlock()
        }
    }

    /// Lets the thread read on where there is room.
    private func updateRoom() {
        self.room.lock()
        let hasRoom = self.state.withLockedValue { $0.portions.count < SendInput.portionCountMax || $0.isAbandoned }
        self.room.unlock(withValue: hasRoom ? 1 : 0)
    }
}
