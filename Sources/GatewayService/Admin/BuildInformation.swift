// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import COpenSSL
import GRDBSQLite

/// The versions of the program and of the system libraries it uses.
enum BuildInformation {
    /// Returns the metric with the versions as labels.
    static func sample(version: String) -> GatewayMetrics.Sample {
        let dimensions = [
            ("version", version), ("openssl", unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING))),
            ("nghttp2", unsafe String(cString: nghttp2_version(0).pointee.version_str)),
            ("sqlite", unsafe String(cString: sqlite3_libversion())),
        ]
        return GatewayMetrics.Sample(name: "apns_legacy_build_info", dimensions: dimensions, value: 1)
    }
}
