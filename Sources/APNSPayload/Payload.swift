// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

/// The content of a notification: a JSON object in UTF-8, no longer than its protocol allows.
///
/// Make it from an ``APS`` object and the app's own keys, from an encodable value, or from JSON text:
///
/// ```swift
/// let built = Payload(APS(alert: "Your order has left", badge: 1), ["order": 1234])
/// let own = try Payload(encoding: MyPayload(aps: APS(alert: "Hello"), order: 1234))
/// let text: Payload = #"{"aps":{"alert":"Hello"}}"#
/// ```
///
/// A payload is not checked when it is made, but by ``check(rules:)``, and by default when it is sent.
///
/// A payload is valid if it is one JSON object (RFC 8259) in UTF-8, no longer than its protocol allows, with at most
/// one `aps`, and if each known key occurs at most once and has a value of its type. Unknown keys are allowed. An empty
/// object is valid, as Wallet sends it, and so is one without `aps`, as device management sends it.
///
/// The check is stricter than RFC 8259 in two points: it refuses an escaped surrogate without its other half, which has
/// no UTF-8, and nesting deeper than ``PayloadRules/depthMax``.
///
/// The check does not allocate.
public struct Payload: Hashable, Sendable {
    /// The JSON text in UTF-8.
    public let bytes: [UInt8]

    /// Creates a payload from JSON text.
    ///
    /// - Parameter bytes: the text in UTF-8.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// Creates a payload from JSON text.
    ///
    /// - Parameter json: the text.
    public init(_ json: String) { self.init(bytes: Array(json.utf8)) }

    /// Creates a payload from an `aps` object and the app's own keys.
    ///
    /// - Parameters:
    ///   - aps: the keys for the system. A number that is not finite becomes `null`, which does not pass the check.
    ///   - custom: the keys for the app, encoded in the order of their names; none by default. A key named `aps`
    ///     becomes a second `aps`, which does not pass the check either.
    public init(_ aps: APS, _ custom: [String: JSONValue] = [:]) {
        let custom = custom.sorted { $0.key < $1.key }.map { (name: $0.key, node: $0.value.node) }
        self.init(JSONNode(.object([(name: "aps", node: Self.node(aps))] + custom)))
    }

    /// Creates a payload from an encodable value, such as a type of the app with a property `aps`.
    ///
    /// - Parameter value: the value to encode. `Date`, `URL` and `Data` use their own encoding, which most apps do not
    ///   expect: use text or seconds instead.
    /// - Throws: the errors of `value`; `EncodingError` for a number that is not finite.
    public init(encoding value: some Encodable) throws {
        self.init(try JSONEncoding.encode(value))
    }

    private static func node(_ aps: APS) -> JSONNode {
        do {
            return try JSONEncoding.encode(aps, refusesNonFinite: false)
        } catch {
            preconditionFailure("Only numbers that are not finite can fail to be encoded.")
        }
    }

    private init(_ node: JSONNode) {
        var bytes: [UInt8] = []
        node.write(to: &bytes)
        self.init(bytes: bytes)
    }

    /// Checks the payload.
    ///
    /// - Parameter rules: the rules; by default those of the binary protocol.
    /// - Returns: its length, as given and minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; the length is checked last.
    @discardableResult
    public func check(rules: PayloadRules = .binary) throws(PayloadProblem) -> PayloadMeasure {
        try Self.check(self.bytes, rules: rules)
    }

    /// The payload without the white space between its tokens, see ``minified(_:rules:)``.
    ///
    /// - Parameter rules: the rules; the length limit applies to the minified payload.
    /// - Returns: the minified payload.
    /// - Throws: ``PayloadProblem``, for the first byte at fault.
    public func minified(rules: PayloadRules = .binary) throws(PayloadProblem) -> Payload {
        Payload(bytes: try Self.minified(self.bytes, rules: rules))
    }

    /// The content of the payload.
    ///
    /// - Returns: the value of the JSON text.
    /// - Throws: ``PayloadProblem`` for the first byte at fault.
    public func value() throws(PayloadProblem) -> JSONValue { try JSONValue(parsing: self.bytes) }
}

extension Payload: ExpressibleByStringLiteral {
    /// Creates a payload from JSON text.
    ///
    /// - Parameter value: the text.
    public init(stringLiteral value: String) { self.init(value) }
}

extension Payload: CustomStringConvertible {
    /// The length only; the content of a payload is private.
    public var description: String { "payload of \(self.bytes.count) bytes" }
}

extension Payload: CustomReflectable {
    /// The length only; the content of a payload is private.
    public var customMirror: Mirror { Mirror(self, children: ["byteCount": self.bytes.count]) }
}

// MARK: - Checking

extension Payload {
    /// Checks a payload.
    ///
    /// - Parameters:
    ///   - bytes: the payload, with or without white space around it.
    ///   - rules: the rules; by default those of the binary protocol.
    /// - Returns: the length of the payload, as given and minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; the length is checked last.
    @discardableResult
    public static func check(
        _ bytes: UnsafeRawBufferPointer,
        rules: PayloadRules = .binary
    ) throws(PayloadProblem) -> PayloadMeasure {
        do throws(PayloadFailure) {
            return unsafe try self.scan(bytes, rules: rules)
        } catch {
            throw unsafe PayloadProblem(error, in: bytes)
        }
    }

    /// Checks a payload.
    ///
    /// - Parameters:
    ///   - bytes: the payload, with or without white space around it.
    ///   - rules: the rules; by default those of the binary protocol.
    /// - Returns: the length of the payload, as given and minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; the length is checked last.
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
    ///   - bytes: the payload, with or without white space around it.
    ///   - rules: the rules; by default those of the binary protocol.
    /// - Returns: the length of the payload, as given and minified.
    /// - Throws: ``PayloadProblem``, for the first byte at fault; the length is checked last.
    @discardableResult
    public static func check(
        _ bytes: [UInt8],
        rules: PayloadRules = .binary
    ) throws(PayloadProblem) -> PayloadMeasure {
        try self.check(bytes.span, rules: rules)
    }

    /// Checks a payload, and returns it without the white space between its tokens.
    ///
    /// Strings, numbers and the order of keys keep their exact bytes.
    ///
    /// - Parameters:
    ///   - bytes: the payload.
    ///   - rules: the rules; the length limit applies to the minified payload.
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

    /// All problems of the payload, as far as it can be parsed.
    ///
    /// The check continues after a duplicate key or a value of the wrong type, and stops at any other problem.
    ///
    /// Returns the problems that ``check(rules:)`` would report one after another, in the order of their bytes.
    package func problems(rules: PayloadRules, countMax: Int) -> [PayloadProblem] {
        unsafe self.bytes.withUnsafeBytes { bytes in
            var problems: [PayloadProblem] = []
            while problems.count < countMax {
                do throws(PayloadFailure) {
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
    ) throws(PayloadFailure) -> PayloadMeasure {
        var scanner = unsafe JSONScanner(bytes)
        var check = PayloadCheck(rules, passedFailureCount: passedFailureCount)
        do throws(ScanFailure) {
            try scanner.begin()
            try check.skipPayload(&scanner)
            try scanner.finish()
        } catch {
            throw check.failure(error)
        }
        let measure = PayloadMeasure(
            byteCount: bytes.count,
            minifiedByteCount: bytes.count - scanner.whiteSpaceByteCount,
            mayHaveOtherPushType: check.mayHaveOtherPushType
        )
        try rules.limit(measure, at: 0)
        return measure
    }
}

extension PayloadRules {
    /// Refuses a payload that is too long.
    ///
    /// - Throws: ``PayloadFailure`` if the payload is longer than ``byteCountMax``.
    package borrowing func limit(_ measure: PayloadMeasure, at byteOffset: Int) throws(PayloadFailure) {
        let byteCount = self.measuresMinified ? measure.minifiedByteCount : measure.byteCount
        guard byteCount > self.byteCountMax else { return }
        throw PayloadFailure(
            kind: .tooLong(byteCount: byteCount, byteCountMax: self.byteCountMax),
            // With white space excluded, the first excess byte is unknown: it is this one or a later one.
            byteOffset: byteOffset + max(self.byteCountMax, 0)
        )
    }
}
