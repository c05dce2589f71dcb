// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB
import TokenStore
import Testing

@Suite("Purge list exports", .timeLimit(.minutes(1)))
struct PurgeExportTests {
    private func export(
        _ format: PurgeExport.Format,
        _ entries: [PurgeEntry],
        table: String = "purge_list"
    ) -> String {
        var export = PurgeExport(format, table: table)
        for entry in entries { export.append(entry) }
        export.finish()
        return String(decoding: export.bytes, as: UTF8.self)
    }

    private static let nasty = #"import:a"b,c\d'); DROP TABLE purge_list; --"#

    @Test("Text has one token per line")
    func text() {
        #expect(self.export(.text, [PurgeListTests.entry([0xAB, 1]), PurgeListTests.entry([2])]) == "ab01\n02\n")
    }

    @Test("CSV has a header and quoting by RFC 4180")
    func csv() {
        let expected =
            "token,topic,environment,failed_at,first_seen,source\r\n"
            + "ab,com.example.app,sandbox,1000,2000,feedback\r\n"
            + "cd,com.example.app,production,1000,2000,\"import:a\"\"b,c\\d'); DROP TABLE purge_list; --\"\r\n"
        let entries = [
            PurgeListTests.entry([0xAB], environment: .sandbox), PurgeListTests.entry([0xCD], source: Self.nasty),
        ]
        #expect(self.export(.csv, entries) == expected)
    }

    @Test("JSON lines are escaped")
    func jsonLines() {
        let expected =
            #"{"token":"cd","topic":"com.example.app","environment":"production","failedAt":1000,"firstSeen":2000,"#
            + #""source":"import:a\"b,c\\d'); DROP TABLE purge_list; --"}"# + "\n"
        #expect(self.export(.jsonLines, [PurgeListTests.entry([0xCD], source: Self.nasty)]) == expected)
    }

    @Test("SQL creates the same rows in a database, and no name ends a literal")
    func sql() throws {
        var entries = (0..<1234).map { number in
            PurgeListTests.entry([UInt8(number / 256), UInt8(number % 256)], failedAt: Int64(number))
        }
        entries.append(PurgeListTests.entry([9, 9, 9], topic: Self.nasty, source: Self.nasty))
        let sql = self.export(.sql, entries)
        #expect(!sql.contains("\\") && !sql.contains("''") && sql.components(matching: "INSERT") == 3)
        let database = try DatabaseQueue()
        try database.write { try $0.execute(sql: sql) }
        let rows = try database.read { database in
            try Row.fetchAll(database, sql: "SELECT token, failed_at, source FROM purge_list ORDER BY failed_at, token")
        }
        #expect(rows.count == entries.count)
        #expect(rows[1234]["token"] == "04d1" && rows[1001]["token"] == "090909")
        #expect(rows.contains { $0["source"] == "import:a%22b%2cc%5cd%27%29%3b DROP TABLE purge_list%3b --" })
    }

    @Test(
        "Only plain names are names of tables",
        arguments: [
            ("purge_list", true), ("public.dead_tokens", true), ("_x1", true), ("", false), ("1x", false),
            ("a.b.c", false), ("a b", false), ("a;--", false), ("\"a\"", false), ("a.", false), ("é", false),
        ]
    )
    func tableNames(_ name: String, _ isName: Bool) {
        #expect(PurgeExport.isTableName(name) == isName)
    }
}

extension String {
    fileprivate func components(matching word: String) -> Int { self.split(separator: word).count - 1 }
}
