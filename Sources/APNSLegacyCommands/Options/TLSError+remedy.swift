// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

extension TLSError {
    /// A sentence that names the option to use, with a space before it; `nil` where there is none.
    var remedy: String? {
        switch self {
        case .passphraseMissing, .passphraseWrong: " Say --passphrase-file FILE, which has it in its first line."
        case .unknownAuthority: " Say --trust FILE, with the authority's certificate in PEM."
        default: nil
        }
    }
}
