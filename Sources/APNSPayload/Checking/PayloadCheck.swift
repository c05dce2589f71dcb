// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// Checks a payload against rules while a scanner skips it.
struct PayloadCheck {
    private let checksKnownKeys: Bool
    /// How many more mistakes in known keys to skip before one is thrown, see ``Payload/problems(rules:countMax:)``.
    private var passedFailureCount: Int
    /// Why the payload is refused although it is JSON.
    private var refusal: PayloadFailure?
    /// The known keys of `aps`, one bit for each; `nil` if it was not examined.
    private var serviceKeys: UInt64?

    init(_ rules: borrowing PayloadRules, passedFailureCount: Int = 0) {
        self.checksKnownKeys = rules.checksKnownKeys
        self.passedFailureCount = passedFailureCount
    }

    /// What is wrong, after the scanner stopped.
    func failure(_ failure: ScanFailure) -> PayloadFailure { self.refusal ?? PayloadFailure(failure) }

    /// Skips a payload; the caller skips white space around it.
    ///
    /// - Throws: `ScanFailure` for the first byte at fault; ``failure(_:)`` tells what is wrong.
    mutating func skipPayload(_ scanner: inout JSONScanner) throws(ScanFailure) {
        let byteOffset = scanner.byteOffset
        let kind: JSONKind
        do throws(ScanFailure) {
            kind = try scanner.kind()
            // The first letter alone does not make it a literal.
            if kind != .object { try scanner.skipValue(enclosedBy: 0) }
        } catch {
            // Values and literals are expected inside an object only.
            guard [.missingValue, .invalidLiteral].contains(error.problem), error.byteOffset == byteOffset else {
                throw error
            }
            throw self.refuse(PayloadFailure(kind: .objectMissing, byteOffset: byteOffset))
        }
        guard kind == .object else {
            throw self.refuse(PayloadFailure(kind: .notAnObject(kind), byteOffset: byteOffset))
        }
        try self.skipObject(.root, &scanner, enclosedBy: 0, checksKnownKeys: self.checksKnownKeys)
    }

    /// Skips an object that has known keys; recursive for at most two nested ones.
    private mutating func skipObject(
        _ object: PayloadObject,
        _ scanner: inout JSONScanner,
        enclosedBy depth: Int,
        checksKnownKeys: Bool
    ) throws(ScanFailure) {
        scanner.enter()
        var isFirst = true
        var seen: UInt64 = 0
        while let name = try scanner.nextKey(isFirst: &isFirst) {
            guard let key = self.known(name, in: object, scanner) else {
                try scanner.skipValue(enclosedBy: depth + 1)
                continue
            }
            let bit: UInt64 = 1 << UInt64(key.rawValue)
            if seen & bit != 0 {
                try self.passOrThrow(PayloadFailure(kind: .duplicateKey(key), byteOffset: name.byteOffset - 1))
            }
            seen |= bit
            guard checksKnownKeys else {
                try scanner.skipValue(enclosedBy: depth + 1)
                continue
            }
            try self.skipValue(of: key, &scanner, enclosedBy: depth + 1)
        }
        if case .aps = object { self.serviceKeys = seen }
    }

    /// The keys of `aps` without which a payload that has `aps` is of push type `alert` or `background`.
    private static let pushTypeKeys = [PayloadKey.contentState, .event, .contentChanged]
        .reduce(0 as UInt64) { $0 | 1 << UInt64($1.rawValue) }

    /// Whether the payload may have another push type than `alert` and `background`.
    var mayHaveOtherPushType: Bool { self.serviceKeys.map { $0 & Self.pushTypeKeys != 0 } ?? true }

    @inline(__always)
    private mutating func skipValue(
        of key: PayloadKey,
        _ scanner: inout JSONScanner,
        enclosedBy depth: Int
    ) throws(ScanFailure) {
        let kind = try scanner.kind()
        let allowed = key.kinds
        guard allowed.rawValue & (1 << kind.rawValue) != 0 else {
            let failure = PayloadFailure(
                kind: .wrongKind(key, found: kind, allowed: allowed),
                byteOffset: scanner.byteOffset
            )
            try self.passOrThrow(failure)
            return try scanner.skipValue(enclosedBy: depth)
        }
        switch (kind, key) {
        case (.string, _):
            _ = try scanner.string()
        case (.number, _):
            try scanner.skipNumber()
        case (.object, .aps):
            try self.skipObject(.aps, &scanner, enclosedBy: depth, checksKnownKeys: true)
        case (.object, .alert):
            try self.skipObject(.alert, &scanner, enclosedBy: depth, checksKnownKeys: true)
        case (.object, .sound):
            try self.skipObject(.sound, &scanner, enclosedBy: depth, checksKnownKeys: true)
        case (.array, _):
            try self.skipStrings(of: key, &scanner, enclosedBy: depth)
        default:
            try scanner.skipValue(enclosedBy: depth)
        }
    }

    /// Skips the array of a key whose elements must be strings.
    private mutating func skipStrings(
        of key: PayloadKey,
        _ scanner: inout JSONScanner,
        enclosedBy depth: Int
    ) throws(ScanFailure) {
        scanner.enter()
        var isFirst = true
        while try scanner.nextElement(isFirst: &isFirst) {
            let kind = try scanner.kind()
            guard kind == .string else {
                try self.passOrThrow(
                    PayloadFailure(kind: .wrongElementKind(key, found: kind), byteOffset: scanner.byteOffset)
                )
                try scanner.skipValue(enclosedBy: depth + 1)
                continue
            }
            _ = try scanner.string()
        }
    }

    /// Throws a mistake, unless the mistakes to skip include it; the scanner can continue after it.
    private mutating func passOrThrow(_ failure: PayloadFailure) throws(ScanFailure) {
        guard self.passedFailureCount > 0 else { throw self.refuse(failure) }
        self.passedFailureCount -= 1
    }

    /// Stores why the payload is refused, and returns what stops the scanner.
    private mutating func refuse(_ failure: PayloadFailure) -> ScanFailure {
        self.refusal = failure
        return ScanFailure(.missingValue, byteOffset: failure.byteOffset)
    }

    /// Determines which known key a string is, even if it is written with escapes.
    @inline(__always)
    private func known(_ name: JSONString, in object: PayloadObject, _ scanner: JSONScanner) -> PayloadKey? {
        guard !name.hasEscapes else { return self.knownEscaped(name, in: object, scanner) }
        guard let bytes = unsafe KeyBytes(scanner.bytes(of: name)) else { return nil }
        return object.key(bytes)
    }

    @inline(never)
    private func knownEscaped(_ name: JSONString, in object: PayloadObject, _ scanner: JSONScanner) -> PayloadKey? {
        // No known key is longer, so a string that does not fit is unknown.
        var decoded = InlineArray<24, UInt8>(repeating: 0)
        var span = decoded.mutableSpan
        return unsafe span.withUnsafeMutableBytes { target in
            guard let byteCount = unsafe scanner.decode(name, into: target) else { return nil }
            let bytes = unsafe UnsafeRawBufferPointer(start: target.baseAddress, count: byteCount)
            guard let bytes = unsafe KeyBytes(bytes) else { return nil }
            return object.key(bytes)
        }
    }
}

extension JSONScanner {
    /// Skips a payload and checks it against rules; the caller skips white space around it.
    ///
    /// Returns the length of the payload.
    ///
    /// - Throws: ``PayloadFailure`` for the first byte at fault.
    package mutating func skipPayload(_ rules: borrowing PayloadRules) throws(PayloadFailure) -> PayloadMeasure {
        let byteOffset = self.byteOffset
        let whiteSpaceByteCount = self.whiteSpaceByteCount
        var check = PayloadCheck(rules)
        do throws(ScanFailure) { try check.skipPayload(&self) } catch { throw check.failure(error) }
        let byteCount = self.byteOffset - byteOffset
        return PayloadMeasure(
            byteCount: byteCount,
            minifiedByteCount: byteCount - (self.whiteSpaceByteCount - whiteSpaceByteCount),
            mayHaveOtherPushType: check.mayHaveOtherPushType
        )
    }
}
