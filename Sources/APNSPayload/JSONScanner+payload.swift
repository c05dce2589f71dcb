// SPDX-License-Identifier: Apache-2.0

extension JSONScanner {
    /// Passes a payload, and checks it against rules; white space around it is the caller's.
    ///
    /// - Returns: the length of the payload.
    /// - Throws: ``ScanFailure`` for the first byte at fault. A payload that is only too long is found out last.
    @discardableResult
    package mutating func skipPayload(_ rules: borrowing PayloadRules) throws(ScanFailure) -> PayloadMeasure {
        let byteOffset = self.byteOffset
        let whiteSpaceByteCount = self.whiteSpaceByteCount
        let kind = try self.kind()
        guard kind == .object else {
            throw ScanFailure(kind: .notAnObject(kind), byteOffset: byteOffset)
        }
        try self.skipObject(.root, enclosedBy: 0, checksKnownKeys: rules.checksKnownKeys)
        let byteCount = self.byteOffset - byteOffset
        return PayloadMeasure(
            byteCount: byteCount,
            minifiedByteCount: byteCount - (self.whiteSpaceByteCount - whiteSpaceByteCount)
        )
    }

    /// Passes an object that has known keys; it calls itself for those nested in it, which are two at most.
    private mutating func skipObject(
        _ object: PayloadObject,
        enclosedBy depth: Int,
        checksKnownKeys: Bool
    ) throws(ScanFailure) {
        self.enter()
        var isFirst = true
        var seen: UInt64 = 0
        while let name = try self.nextKey(isFirst: &isFirst) {
            guard let key = self.known(name, in: object) else {
                try self.skipValue(enclosedBy: depth + 1)
                continue
            }
            let bit: UInt64 = 1 << UInt64(key.rawValue)
            guard seen & bit == 0 else {
                throw ScanFailure(kind: .duplicateKey(key), byteOffset: name.byteOffset - 1)
            }
            seen |= bit
            guard checksKnownKeys else {
                try self.skipValue(enclosedBy: depth + 1)
                continue
            }
            try self.skipValue(of: key, enclosedBy: depth + 1)
        }
    }

    @inline(__always)
    private mutating func skipValue(of key: PayloadKey, enclosedBy depth: Int) throws(ScanFailure) {
        let kind = try self.kind()
        let allowed = key.kinds
        guard allowed.rawValue & (1 << kind.rawValue) != 0 else {
            throw ScanFailure(
                kind: .wrongKind(key, found: kind, allowed: allowed),
                byteOffset: self.byteOffset
            )
        }
        switch (kind, key) {
        case (.string, _):
            _ = try self.string()
        case (.number, _):
            try self.skipNumber()
        case (.object, .aps):
            try self.skipObject(.aps, enclosedBy: depth, checksKnownKeys: true)
        case (.object, .alert):
            try self.skipObject(.alert, enclosedBy: depth, checksKnownKeys: true)
        case (.object, .sound):
            try self.skipObject(.sound, enclosedBy: depth, checksKnownKeys: true)
        case (.array, _):
            try self.skipStrings(of: key)
        default:
            try self.skipValue(enclosedBy: depth)
        }
    }

    /// Passes the array of a key whose elements must be strings.
    private mutating func skipStrings(of key: PayloadKey) throws(ScanFailure) {
        self.enter()
        var isFirst = true
        while try self.nextElement(isFirst: &isFirst) {
            let kind = try self.kind()
            guard kind == .string else {
                throw ScanFailure(kind: .wrongElementKind(key, found: kind), byteOffset: self.byteOffset)
            }
            _ = try self.string()
        }
    }

    /// Finds out which known key a string is, also when it is written with escapes.
    @inline(__always)
    private func known(_ name: JSONString, in object: PayloadObject) -> PayloadKey? {
        guard !name.hasEscapes else { return self.knownEscaped(name, in: object) }
        guard let bytes = unsafe KeyBytes(self.bytes(of: name)) else { return nil }
        return object.key(bytes)
    }

    @inline(never)
    private func knownEscaped(_ name: JSONString, in object: PayloadObject) -> PayloadKey? {
        // No known key is longer, and a longer one that does not fit is none of them.
        var decoded = InlineArray<24, UInt8>(repeating: 0)
        var span = decoded.mutableSpan
        return unsafe span.withUnsafeMutableBytes { target in
            guard let byteCount = unsafe self.decode(name, into: target) else { return nil }
            let bytes = unsafe UnsafeRawBufferPointer(start: target.baseAddress, count: byteCount)
            guard let bytes = unsafe KeyBytes(bytes) else { return nil }
            return object.key(bytes)
        }
    }
}
