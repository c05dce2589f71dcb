// SPDX-License-Identifier: Apache-2.0

import FileSupport

/// Reads small files of certificates and keys.
package enum FileBytes {
    /// The maximum size of a file, in bytes; system trust bundles have about 250,000.
    static let byteCountMax = 16 << 20

    /// The bytes of the file at `path`.
    ///
    /// Returns the bytes, at most 16 MiB.
    ///
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)``, also if a pipe is not closed within 10 seconds.
    package static func read(_ path: String, allowsNamedPipe: Bool = false) throws(TLSError) -> [UInt8] {
        do throws(SmallFile.Failure) {
            return try SmallFile.read(path, allowsNamedPipe ? .any : .unnamed, byteCountMax: Self.byteCountMax)
        } catch {
            let detail =
                switch error {
                case .system(let error): "\(error)"
                case .namedPipe: "it is a named pipe, not a file"
                case .notRegular: "it is not a regular file"
                case .unfinished(let duration):
                    "it is a pipe, and what comes out of it did not end within \(duration)"
                case .tooLong: "it is longer than \(Self.byteCountMax) bytes"
                }
            throw .fileUnreadable(path: path, detail: detail)
        }
    }

    /// The first line of a file, without its line break (LF or CR LF).
    package static func firstLine(of bytes: [UInt8]) -> ArraySlice<UInt8> {
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
        return line.last == UInt8(ascii: "\r") ? line.dropLast() : line
    }
}
