// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import CNGHTTP2
import COpenSSL
import GRDBSQLite

/// The output of `apns-legacy --version`: the program, its commit, and its libraries.
struct VersionText {
    /// The commit that the program was built from.
    let commit: String

    /// The text, with one item on each line.
    var text: String {
        let lines = [
            "apns-legacy \(ApnsLegacyCommand.configuration.version)", "commit \(self.commit)",
            "OpenSSL \(Self.openSSL)",
            "SQLite \(Self.sqlite)", "nghttp2 \(Self.nghttp2)",
        ]
        return lines.joined(separator: "\n")
    }

    // Those that are loaded, which may be newer than those it was built with.

    private static var openSSL: String { unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)) }

    private static var sqlite: String { unsafe String(cString: sqlite3_libversion()) }

    private static var nghttp2: String {
        guard let information = unsafe nghttp2_version(0) else { return "unknown" }
        return unsafe String(cString: information.pointee.version_str)
    }
}
