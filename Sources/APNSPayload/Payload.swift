// SPDX-License-Identifier: Apache-2.0

/// Checks and minifies the payloads of notifications.
///
/// A payload passes when it is one JSON object of RFC 8259 in UTF-8, no longer than its protocol takes, with no second
/// `aps`, and when each known key is there once at most with a value of its known type. Unknown keys pass. An empty
/// object passes, as Wallet sends it, and one without `aps`, as device management sends it.
///
/// Stricter than RFC 8259 in this: an escaped surrogate without its other half is refused, since it has no UTF-8,
/// and so is nesting beyond ``PayloadRules/depthMax``.
///
/// Nothing here allocates, but the forms that return an array.
public enum Payload {
    /// Checks a payload.
    ///
    /// - Parameters:
    ///   - bytes: the payload, with white space around it or not.
    ///   - rules: what it is checked against; the default is the binary protocol.
    /// - Returns: the length of the payload, also minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; a payload that is only too long is found out last.
    @discardableResult
    public static func check(
        _ bytes: UnsafeRawBufferPointer,
        rules: PayloadRules = .binary
    ) throws(PayloadProblem) -> PayloadMeasure {
        do throws(ScanFailure) {
            return unsafe try self.scan(bytes, rules: rules)
        } catch {
            throw unsafe PayloadProblem(error, in: bytes)
        }
    }

    /// Checks a payload.
    ///
    /// - Parameters:
    ///   - bytes: the payload, with white space around it or not.
    ///   - rules: what it is checked against; the default is the binary protocol.
    /// - Returns: the length of the payload, also minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; a payload that is only too long is found out last.
    @discardableResult
    public static func check(
        _ bytes: Span<UInt8>,
        rules: PayloadRules = .binary
    ) throws(PayloadProblem) -> PayloadMeasure {
        try unsafe bytes.withUnsafeBytes { bytes throws(PayloadProblem) in
            try unsafe self.check(bytes, rules: rules)
        }
    }

    /// Checks a payload.
    ///
    /// - Parameters:
    ///   - bytes: the payload, with white space around it or not.
    ///   - rules: what it is checked against; the default is the binary protocol.
    /// - Returns: the length of the payload, also minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; a payload that is only too long is found out last.
    @discardableResult
    public static func check(
        _ bytes: [UInt8],
        rules: PayloadRules = .binary
    ) throws(PayloadProblem) -> PayloadMeasure {
        try self.check(bytes.span, rules: rules)
    }

    /// Checks a payload, and returns it without the white space between its tokens.
    ///
    /// The value is unchanged to the byte: strings, numbers and the order of keys stay as they are written.
    ///
    /// - Parameters:
    ///   - bytes: the payload.
    ///   - rules: what it is checked against; the length is that of the minified payload.
    /// - Returns: the minified payload.
    /// - Throws: ``PayloadProblem``, for the first byte at fault.
    public static func minified(
        _ bytes: [UInt8],
        rules: PayloadRules = .binary
    ) throws(PayloadProblem) -> [UInt8] {
        var rules = rules
        rules.measuresMinified = true
        let measure = try self.check(bytes, rules: rules)
        return unsafe bytes.withUnsafeBytes { source in
            unsafe [UInt8](unsafeUninitializedCapacity: measure.minifiedByteCount) { target, count in
                count = unsafe self.minify(source, into: UnsafeMutableRawBufferPointer(target)) ?? 0
            }
        }
    }

    private static func scan(
        _ bytes: UnsafeRawBufferPointer,
        rules: borrowing PayloadRules
    ) throws(ScanFailure) -> PayloadMeasure {
        var scanner = unsafe JSONScanner(bytes)
        try scanner.begin()
        try scanner.skipPayload(rules)
        try scanner.finish()
        let measure = PayloadMeasure(
            byteCount: bytes.count,
            minifiedByteCount: bytes.count - scanner.whiteSpaceByteCount
        )
        try rules.limit(measure, at: 0)
        return measure
    }
}

extension PayloadRules {
    /// Refuses what is too long.
    ///
    /// - Parameters:
    ///   - measure: the length of a payload.
    ///   - byteOffset: where the payload begins, for the place of the error.
    /// - Throws: ``ScanFailure`` when the payload is longer than ``byteCountMax``.
    package borrowing func limit(_ measure: PayloadMeasure, at byteOffset: Int) throws(ScanFailure) {
        let byteCount = self.measuresMinified ? measure.minifiedByteCount : measure.byteCount
        guard byteCount > self.byteCountMax else { return }
        throw ScanFailure(
            kind: .tooLong(byteCount: byteCount, byteCountMax: self.byteCountMax),
            // White space makes the first byte too many unknown, and it can only be this one or a later one.
            byteOffset: byteOffset + max(self.byteCountMax, 0)
        )
    }
}
