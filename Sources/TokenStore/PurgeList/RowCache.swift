// SPDX-License-Identifier: Apache-2.0

/// Caches values of a table within a transaction.
struct RowCache<Key: Hashable, Value> {
    private let lookUp: (Key) throws -> Value?
    private var values: [Key: Value] = [:]
    private var last: (key: Key, value: Value)?

    /// The maximum number of cached values.
    private static var countMax: Int { 1024 }

    init(lookUp: @escaping (Key) throws -> Value?) {
        self.lookUp = lookUp
    }

    /// - Throws: `DatabaseError` if there is no such row.
    mutating func value(_ key: Key) throws -> Value {
        if let last, last.key == key { return last.value }
        if let value = self.values[key] {
            self.last = (key, value)
            return value
        }
        guard let value = try self.lookUp(key) else { throw PurgeDamage.missingRow.error }
        if self.values.count >= Self.countMax { self.values.removeAll(keepingCapacity: true) }
        self.values[key] = value
        self.last = (key, value)
        return value
    }
}
