// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

extension JSONValue {
    /// Parses a JSON text.
    ///
    /// - Parameter bytes: the whole text, in UTF-8.
    /// - Throws: ``PayloadProblem`` for the first byte at fault, also if objects and arrays are nested deeper than
    ///   ``PayloadRules/depthMax``.
    public init(parsing bytes: [UInt8]) throws(PayloadProblem) {
        self = try unsafe bytes.span.withUnsafeBytes { bytes throws(PayloadProblem) -> JSONValue in
            do throws(ScanFailure) {
                return try unsafe JSONValue(scanning: bytes)
            } catch {
                throw unsafe PayloadProblem(PayloadFailure(error), in: bytes)
            }
        }
    }
}
