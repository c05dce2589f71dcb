// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import COpenSSL
import GRDBSQLite

/// The version of the program, and of the system's libraries that it runs with.
enum BuildInformation {
    /// - Parameter version: that of the program.
    /// - Returns: the metric that says so.
    static func sample(version: String) -> GatewayMetrics.Sample {
        let dimensions = [
            ("version", version), ("openssl", unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING))),
            ("nghttp2", unsafe String(cString: nghttp2_version(0).pointee.version_str)),
            ("sqlite", unsafe String(cString: sqlite3_libversion())),
        ]
        return GatewayMetrics.Sample(name: "apns_legacy_build_info", dimensions: dimensions, value: 1)
    }
}
