// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The errors that OpenSSL left in this thread's error queue, the first error first.
struct OpenSSLQueue {
    struct Entry {
        let library: Int32
        let reason: Int32
        let text: String
    }

    let entries: [Entry]

    /// Removes all errors from the queue, so that the next call on this thread starts with an empty queue.
    static func take() -> Self {
        var entries: [Entry] = []
        while case let code = ERR_get_error(), code != 0 {
            entries.append(
                Entry(library: ERR_GET_LIB(code), reason: ERR_GET_REASON(code), text: Self.text(of: code))
            )
        }
        return Self(entries: entries)
    }

    var isEmpty: Bool { self.entries.isEmpty }

    /// Whether the queue of this thread is empty.
    static var isEmpty: Bool { ERR_peek_error() == 0 }

    /// OpenSSL's reasons, joined, without repetitions.
    var text: String {
        var seen: [String] = []
        for entry in self.entries where !seen.contains(entry.text) { seen.append(entry.text) }
        return seen.isEmpty ? "no reason given" : seen.joined(separator: "; ")
    }

    func contains(library: Int32, reason: Int32) -> Bool {
        self.entries.contains { $0.library == library && $0.reason == reason }
    }

    /// Whether an algorithm was missing, such as those that only the legacy provider has.
    var isAboutUnsupportedAlgorithm: Bool {
        self.entries.contains {
            $0.reason == ERR_R_UNSUPPORTED
                || ($0.library == ERR_LIB_EVP
                    && [EVP_R_UNSUPPORTED_ALGORITHM, EVP_R_UNSUPPORTED_CIPHER, EVP_R_UNKNOWN_PBE_ALGORITHM]
                        .contains($0.reason))
        }
    }

    /// The number of the TLS alert that the peer sent, if that was the error.
    var alert: UInt8? {
        for entry in self.entries where entry.library == ERR_LIB_SSL {
            let number = entry.reason - Int32(SSL_AD_REASON_OFFSET)
            if (0...255).contains(number) { return UInt8(number) }
        }
        return nil
    }

    /// The reasons of OpenSSL's TLS code.
    var tlsReasons: [Int32] {
        self.entries.filter { $0.library == ERR_LIB_SSL }.map(\.reason)
    }

    private static func text(of code: UInt) -> String {
        if let reason = unsafe ERR_reason_error_string(code) { return unsafe String(cString: reason) }
        // Errors of the operating system have no reason string; the full form ends with it.
        var bytes = [CChar](repeating: 0, count: 256)
        unsafe ERR_error_string_n(code, &bytes, bytes.count)
        let full = String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return full.split(separator: ":").last.map(String.init) ?? full
    }
}
