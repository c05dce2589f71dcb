// SPDX-License-Identifier: Apache-2.0

/// What a notification carries: a JSON object in UTF-8, no longer than its protocol takes.
///
/// Made of an ``APS`` object and the app's own keys, of a value that writes itself, or of text that is ready:
///
/// ```swift
/// let built = Payload(APS(alert: "Your order has left", badge: 1), ["order": 1234])
/// let own = try Payload(encoding: MyPayload(aps: APS(alert: "Hello"), order: 1234))
/// let text: Payload = #"{"aps":{"alert":"Hello"}}"#
/// ```
///
/// A payload is not checked when it is made, but by ``check(rules:)``, and by default when it is sent.
///
/// It passes when it is one JSON object of RFC 8259 in UTF-8, no longer than its protocol takes, with no second
/// `aps`, and when each known key is there once at most with a value of its known type. Unknown keys pass. An empty
/// object passes, as Wallet sends it, and one without `aps`, as device management sends it.
///
/// Stricter than RFC 8259 in this: an escaped surrogate without its other half is refused, since it has no UTF-8,
/// and so is nesting beyond ``PayloadRules/depthMax``.
///
/// To check allocates nothing.
public struct Payload: Hashable, Sendable {
    /// The JSON text in UTF-8.
    public let bytes: [UInt8]

    /// Takes JSON text that is ready.
    ///
    /// - Parameter bytes: the text in UTF-8.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// Takes JSON text that is ready.
    ///
    /// - Parameter json: the text.
    public init(_ json: String) { self.init(bytes: Array(json.utf8)) }

    /// Makes a payload of an `aps` object and the app's own keys.
    ///
    /// - Parameters:
    ///   - aps: what the system reads. A number that is not finite becomes `null`, which does not pass the check.
    ///   - custom: what the app reads, by its names, and written in their order; nothing by default. One that is named
    ///     `aps` becomes a second `aps`, which does not pass the check either.
    public init(_ aps: APS, _ custom: [String: JSONValue] = [:]) {
        let custom = custom.sorted { $0.key < $1.key }.map { (name: $0.key, node: $0.value.node) }
        self.init(JSONNode(.object([(name: "aps", node: JSONEncoding.encode(aps))] + custom)))
    }

    /// Makes a payload of a value that writes itself, such as a type of the app's with a property `aps`.
    ///
    /// - Parameter value: is asked to write itself. A `Date`, a `URL` and `Data` write what their own type says, which
    ///   is not what most apps read: write text or seconds in their place.
    /// - Throws: what `value` throws; `EncodingError` for a number that is not finite.
    public init(encoding value: some Encodable) throws {
        self.init(try JSONEncoding.encode(value))
    }

    private init(_ node: JSONNode) {
        var bytes: [UInt8] = []
        node.write(to: &bytes)
        self.init(bytes: bytes)
    }

    /// Checks the payload.
    ///
    /// - Parameter rules: what it is checked against; the default is the binary protocol.
    /// - Returns: its length, also minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; a payload that is only too long is found out last.
    @discardableResult
    public func check(rules: PayloadRules = .binary) throws(PayloadProblem) -> PayloadMeasure {
        try Self.check(self.bytes, rules: rules)
    }

    /// The payload without the white space between its tokens, see ``minified(_:rules:)``.
    ///
    /// - Parameter rules: what it is checked against; the length is that of the minified payload.
    /// - Returns: the minified payload.
    /// - Throws: ``PayloadProblem``, for the first byte at fault.
    public func minified(rules: PayloadRules = .binary) throws(PayloadProblem) -> Payload {
        Payload(bytes: try Self.minified(self.bytes, rules: rules))
    }

    /// What the payload says.
    ///
    /// - Returns: the value of the JSON text.
    /// - Throws: ``PayloadProblem`` for the first byte at fault.
    public func value() throws(PayloadProblem) -> JSONValue { try JSONValue(parsing: self.bytes) }
}

extension Payload: ExpressibleByStringLiteral {
    /// Takes JSON text that is ready.
    ///
    /// - Parameter value: the text.
    public init(stringLiteral value: String) { self.init(value) }
}

extension Payload: CustomStringConvertible {
    /// The length only; what a payload says is private.
    public var description: String { "payload of \(self.bytes.count) bytes" }
}

extension Payload: CustomReflectable {
    /// The length only; what a payload says is private.
    public var customMirror: Mirror { Mirror(self, children: ["byteCount": self.bytes.count]) }
}

// MARK: - Checking

extension Payload {
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

    /// All that is wrong with the payload, as far as it can be read.
    ///
    /// Behind a known key that is there twice or has a value of another type the check goes on; behind anything else
    /// it ends.
    ///
    /// - Parameters:
    ///   - rules: what it is checked against.
    ///   - countMax: how many are looked for.
    /// - Returns: those that ``check(rules:)`` would throw one after the other, in the order of their bytes.
    package func problems(rules: PayloadRules, countMax: Int) -> [PayloadProblem] {
        unsafe self.bytes.withUnsafeBytes { bytes in
            var problems: [PayloadProblem] = []
            while problems.count < countMax {
                do throws(ScanFailure) {
                    _ = unsafe try Self.scan(bytes, rules: rules, passedFailureCount: problems.count)
                    break
                } catch {
                    problems.append(unsafe PayloadProblem(error, in: bytes))
                    guard error.kind.key != nil else { break }
                }
            }
            return problems
        }
    }

    private static func scan(
        _ bytes: UnsafeRawBufferPointer,
        rules: borrowing PayloadRules,
        passedFailureCount: Int = 0
    ) throws(ScanFailure) -> PayloadMeasure {
        var scanner = unsafe JSONScanner(bytes)
        scanner.passedFailureCount = passedFailureCount
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
