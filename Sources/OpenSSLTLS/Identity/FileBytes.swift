// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Reading small files of certificates and keys.
package enum FileBytes {
    /// The longest file that is read, in bytes; system trust bundles come to about 250,000.
    static let byteCountMax = 16 << 20

    /// The bytes of the file at `path`.
    package static func read(_ path: String) throws(TLSError) -> [UInt8] {
        ERR_clear_error()
        guard !path.utf8.contains(0), let file = unsafe BIO_new_file(path, "rb") else {
            throw .fileUnreadable(path: path, detail: OpenSSLQueue.take().systemText)
        }
        defer { unsafe BIO_free(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16384)
        while true {
            let count = unsafe BIO_read(file, &piece, Int32(piece.count))
            if count <= 0 { break }
            bytes += piece[..<Int(count)]
            guard bytes.count <= Self.byteCountMax else {
                throw .fileUnreadable(path: path, detail: "it is longer than \(Self.byteCountMax) bytes")
            }
        }
        let queue = OpenSSLQueue.take()
        guard queue.isEmpty else { throw .fileUnreadable(path: path, detail: queue.systemText) }
        return bytes
    }

    /// The first line of a file, without its line end: LF, or CR and LF.
    package static func firstLine(of bytes: [UInt8]) -> ArraySlice<UInt8> {
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
        return line.last == UInt8(ascii: "\r") ? line.dropLast() : line
    }
}
