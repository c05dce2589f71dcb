// SPDX-License-Identifier: Apache-2.0

/// Reads bytes that must be exactly one value.
enum WholeValue {
    /// Reads the value.
    ///
    /// - Throws: what `parse` throws, ``WireError/incomplete(byteCount:)``, ``WireError/trailingBytes(offset:)``.
    static func read<Value>(
        _ bytes: some Collection<UInt8>,
        _ parse: (inout ArraySlice<UInt8>) throws(WireError) -> Value?
    ) throws(WireError) -> Value {
        let all = Array(bytes)
        var rest = all[...]
        guard let value = try parse(&rest) else { throw .incomplete(byteCount: all.count) }
        guard rest.isEmpty else { throw .trailingBytes(offset: rest.startIndex) }
        return value
    }
}
