// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import FileSupport
import Glibc

/// Bytes that are overwritten before their memory is freed.
///
/// Safe to share: nothing changes between `init` and `deinit`.
@safe
final class SecretBytes: @unchecked Sendable {
    /// The bytes, and a zero byte after them; never copied.
    private var storage: [UInt8] = []

    init(_ bytes: some Collection<UInt8>) {
        // If it grew, memory that it leaves would keep the secret. An array may not share its memory with another.
        self.storage.reserveCapacity(bytes.count + 1)
        self.storage += bytes
        self.storage.append(0)
    }

    deinit { self.storage.wipe() }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        unsafe self.storage.withUnsafeBytes { unsafe body(UnsafeRawBufferPointer(rebasing: $0.dropLast())) }
    }

    /// As text of C, which ends at the first zero byte.
    func withText<Result>(_ body: (UnsafePointer<CChar>?, Int32) -> Result) -> Result {
        unsafe self.storage.withUnsafeBytes { bytes in
            let text = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            return unsafe body(text, text.map { Int32(clamping: unsafe strlen($0)) } ?? 0)
        }
    }
}

extension SecretBytes: Hashable {
    static func == (left: SecretBytes, right: SecretBytes) -> Bool { left.storage == right.storage }

    func hash(into hasher: inout Hasher) { hasher.combine(self.storage) }
}

/// The memory that OpenSSL frees.
package enum OpenSSLMemory {
    /// Makes OpenSSL overwrite the memory that it frees, for the whole process.
    ///
    /// OpenSSL copies a private key and a passphrase up to 37 times when it decodes them, and overwrites few of the
    /// copies. Must be called before OpenSSL allocates anything; otherwise it has no effect.
    package static func wipeWhenFreed() { _ = shim_wipe_freed_memory() }
}
