// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL || MariaDB
/// A column of a table on a database server.
protocol ServerTableColumn {
    var name: String { get }

    /// Whether statements cannot set it.
    var isGenerated: Bool { get }

    /// Whether its values are integers, also as part of a key.
    var isInteger: Bool { get }

    /// The kind of its values.
    var kind: TokenTableValueKind { get }
}

/// The columns of a table that a prune reads and changes.
struct ServerTableColumns<Column: ServerTableColumn> {
    let keys: [Column]
    let token: Column
    let registration: Column?
    let topic: Column?
    let active: Column?
    let layout: TokenTableLayout

    /// Finds the columns that the user has named, and those of the key, among all columns of a table.
    ///
    /// - Throws: `TokenTableError`.
    init(_ application: TokenTableApplication, table name: String, _ columns: [Column], keys: [String]) throws {
        func found(_ column: String) throws -> Column {
            guard let index = SQLName.index(of: column, in: columns.map(\.name)) else {
                throw TokenTableError.missingColumn(column, table: name, found: columns.map(\.name))
            }
            return columns[index]
        }
        let rules = application.rules
        self.token = try found(application.tokenColumn)
        self.registration = try rules.registration.column.map(found)
        self.topic = try rules.topic.column.map(found)
        self.active = try rules.action.column.map(found)
        if let active = self.active {
            guard !active.isGenerated else { throw TokenTableError.generatedColumn(active.name, table: name) }
            guard ![self.token, self.registration, self.topic].contains(where: { $0?.name == active.name }) else {
                throw TokenTableError.takenColumn(active.name)
            }
        }
        self.keys = try keys.map(found)
        guard !self.keys.isEmpty else { throw TokenTableError.noKey(table: name) }
        self.layout = TokenTableLayout(
            name: name,
            keyCount: self.keys.count,
            hasRowNumbers: self.keys.count == 1 && self.keys[0].isInteger,
            hasRegistration: self.registration != nil,
            hasTopic: self.topic != nil,
            active: self.active?.name
        )
    }

    /// The kinds of the values after the key in a page: token, registration, topic and flag.
    ///
    /// A token that is not bytes is read as a text, whatever its type, and so is a topic.
    var kinds: [TokenTableValueKind] {
        let token = self.token.kind == .blob ? TokenTableValueKind.blob : .text
        return [token] + [self.registration?.kind, self.topic.map { _ in .text }, self.active?.kind].compactMap(\.self)
    }
}
#endif
