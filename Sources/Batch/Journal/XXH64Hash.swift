// SPDX-License-Identifier: Apache-2.0

import SystemPackage

/// The 64-bit hash XXH64 with the seed 0, of bytes that may come in parts.
///
/// It detects damage to files of any length at the speed of memory. It does not protect against an attacker.
///
/// - SeeAlso: the specification of xxHash, `doc/xxhash_spec.md` in its repository.
package struct XXH64Hash: Sendable {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5
    /// The number of bytes of a stripe, which has a word for each accumulator.
    private static let stripeByteCount = 32

    private var (first, second) = (XXH64Hash.prime1 &+ XXH64Hash.prime2, XXH64Hash.prime2)
    private var (third, fourth) = (UInt64(0), 0 &- XXH64Hash.prime1)
    /// The bytes after the last whole stripe.
    private var rest = InlineArray<32, UInt8>(repeating: 0)
    private var restCount = 0
    private var byteCount: UInt64 = 0

    /// Creates the hash of no bytes.
    package init() {}

    /// Adds bytes.
    package mutating func add(_ bytes: RawSpan) {
        var offset = 0
        self.byteCount &+= UInt64(bytes.byteCount)
        if self.restCount > 0 {
            offset = min(Self.stripeByteCount - self.restCount, bytes.byteCount)
            self.keep(bytes.extracting(first: offset))
            guard self.restCount == Self.stripeByteCount else { return }
            self.restCount = 0
            let stripe = self.rest
            unsafe self.mix(stripe.span.bytes, at: 0)
        }
        while offset &+ Self.stripeByteCount <= bytes.byteCount {
            self.mix(bytes, at: offset)
            offset &+= Self.stripeByteCount
        }
        self.keep(bytes.extracting(droppingFirst: offset))
    }

    /// Keeps bytes until they are a stripe.
    private mutating func keep(_ bytes: RawSpan) {
        var rest = self.rest.mutableSpan
        unsafe rest.withUnsafeMutableBytes { rest in
            unsafe bytes.withUnsafeBytes { unsafe rest[self.restCount...].copyBytes(from: $0) }
        }
        self.restCount += bytes.byteCount
    }

    @inline(__always)
    private mutating func mix(_ bytes: RawSpan, at offset: Int) {
        self.first = Self.round(self.first, Self.word(bytes, at: offset))
        self.second = Self.round(self.second, Self.word(bytes, at: offset &+ 8))
        self.third = Self.round(self.third, Self.word(bytes, at: offset &+ 16))
        self.fourth = Self.round(self.fourth, Self.word(bytes, at: offset &+ 24))
    }

    @inline(__always)
    private static func word(_ bytes: RawSpan, at offset: Int) -> UInt64 {
        UInt64(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inline(__always)
    private static func round(_ value: UInt64, _ word: UInt64) -> UInt64 {
        self.rotated(value &+ word &* self.prime2, 31) &* self.prime1
    }

    @inline(__always)
    private static func rotated(_ value: UInt64, _ count: UInt64) -> UInt64 {
        value &<< count | value &>> (64 &- count)
    }

    /// The hash of the bytes so far.
    package var value: UInt64 {
        var value = self.byteCount < UInt64(Self.stripeByteCount) ? Self.prime5 : self.merged
        value &+= self.byteCount
        let rest = unsafe self.rest.span.bytes
        var offset = 0
        while offset + 8 <= self.restCount {
            value = Self.rotated(value ^ Self.round(0, Self.word(rest, at: offset)), 27) &* Self.prime1 &+ Self.prime4
            offset += 8
        }
        if offset + 4 <= self.restCount {
            let half = UInt32(littleEndian: unsafe rest.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self))
            value = Self.rotated(value ^ UInt64(half) &* Self.prime1, 23) &* Self.prime2 &+ Self.prime3
            offset += 4
        }
        for index in offset..<self.restCount {
            value = Self.rotated(value ^ UInt64(self.rest[index]) &* Self.prime5, 11) &* Self.prime1
        }
        value = (value ^ value &>> 33) &* Self.prime2
        value = (value ^ value &>> 29) &* Self.prime3
        return value ^ value &>> 32
    }

    /// The accumulators in one.
    private var merged: UInt64 {
        var value = Self.rotated(self.first, 1) &+ Self.rotated(self.second, 7)
        value &+= Self.rotated(self.third, 12) &+ Self.rotated(self.fourth, 18)
        value = (value ^ Self.round(0, self.first)) &* Self.prime1 &+ Self.prime4
        value = (value ^ Self.round(0, self.second)) &* Self.prime1 &+ Self.prime4
        value = (value ^ Self.round(0, self.third)) &* Self.prime1 &+ Self.prime4
        return (value ^ Self.round(0, self.fourth)) &* Self.prime1 &+ Self.prime4
    }
}

extension XXH64Hash {
    /// The number of bytes of a file that are read at a time.
    private static let portionByteCount = 262_144

    /// Adds the first bytes of a file; fewer if the file is shorter.
    ///
    /// - Throws: the error of the system call.
    mutating func add(first byteCount: UInt64, of file: FileDescriptor) throws(Errno) {
        var portion = [UInt8](repeating: 0, count: Self.portionByteCount)
        var offset: UInt64 = 0
        while offset < byteCount {
            let countMax = Int(min(byteCount - offset, UInt64(portion.count)))
            do {
                let count = try unsafe portion.withUnsafeMutableBytes {
                    let target = unsafe UnsafeMutableRawBufferPointer(rebasing: $0[..<countMax])
                    return try unsafe file.read(fromAbsoluteOffset: Int64(offset), into: target)
                }
                if count == 0 { return }
                unsafe self.add(portion.span.bytes.extracting(first: count))
                offset += UInt64(count)
            } catch {
                throw error as? Errno ?? .ioError
            }
        }
    }
}
