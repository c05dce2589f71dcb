// SPDX-License-Identifier: Apache-2.0

/// Caches the row IDs of names within a transaction.
struct RowIDCache<Name: Hashable> {
    private let lookUp: (Name) throws -> Int64?
    private var identifiers: [Name: Int64] = [:]
    private var last: (name: Name, identifier: Int64)?

    /// The maximum number of cached names.
    private static var countMax: Int { 1024 }

    init(lookUp: @escaping (Name) throws -> Int64?) {
        self.lookUp = lookUp
    }

    mutating func identifier(_ name: Name) throws -> Int64 {
        if let last, last.name == name { return last.identifier }
        if let identifier = self.identifiers[name] {
            self.last = (name, identifier)
            return identifier
        }
        guard let identifier = try self.lookUp(name) else { throw RowIDCacheFailure() }
        if self.identifiers.count >= Self.countMax { self.identifiers.removeAll(keepingCapacity: true) }
        self.identifiers[name] = identifier
        self.last = (name, identifier)
        return identifier
    }
}

/// A name that was just inserted is missing: the file changed despite its lock.
struct RowIDCacheFailure: Error {}
