// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The encryption and the checksum of a PKCS#12 file, as far as they are visible without its passphrase.
///
/// - SeeAlso: RFC 7292, section 4 and appendix C.
package struct PKCS12Protection: Hashable, Sendable {
    /// The content of a part of a file.
    package enum Content: String, Sendable {
        case certificates
        case key
    }

    /// The encryption of one part.
    package struct Part: Hashable, Sendable {
        /// The content of the part.
        package var content: Content
        /// The cipher, such as "AES-256", "3DES" or "RC2-40"; `nil` if the part is not encrypted.
        package var cipher: String?
        /// The number of iterations of the key derivation.
        package var iterationCount: Int?
        /// Whether it uses a scheme of PKCS#12 with SHA-1 instead of PBES2, which old programs do not support.
        package var isOriginalScheme: Bool
    }

    /// The hash of the checksum, such as "SHA1" or "SHA256"; `nil` without a checksum.
    package private(set) var checksumDigest: String?
    /// The number of iterations of the checksum's key derivation.
    package private(set) var checksumIterationCount: Int?
    /// The parts, in the order of the file.
    package private(set) var parts: [Part] = []

    /// Whether programs from before 2018 can read the file, such as Java 8, Windows Server 2016 and OpenSSL 0.9.8.
    package var isForOldPrograms: Bool {
        self.checksumDigest == "SHA1" && self.parts.allSatisfy { $0.cipher == nil || $0.isOriginalScheme }
    }

    /// Whether OpenSSL 3 can read the file only with its legacy provider.
    package var needsLegacyProvider: Bool {
        self.parts.contains { part in part.cipher.map { Self.retiredCiphers.contains($0) } ?? false }
    }

    private static let retiredCiphers: Set = ["RC2-40", "RC2-64", "RC2-128", "RC4-40", "RC4-128", "DES"]

    /// Reads the unencrypted part of a file; `nil` if it is not a PKCS#12 file.
    package init?(of bytes: [UInt8]) {
        defer { ERR_clear_error() }
        let file = unsafe bytes.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_PKCS12(nil, &position, bytes.count)
        }
        guard let file = unsafe file else { return nil }
        defer { unsafe PKCS12_free(file) }
        unsafe self.readChecksum(of: file)
        guard let safes = unsafe PKCS12_unpack_authsafes(file) else { return }
        defer { unsafe shim_sk_PKCS7_pop_free(safes) }
        for index in unsafe 0..<max(0, shim_sk_PKCS7_num(safes)) {
            guard let safe = unsafe shim_sk_PKCS7_value(safes, index) else { continue }
            if let algorithm = unsafe shim_PKCS7_get0_encryption(safe) {
                unsafe self.parts.append(Self.part(.certificates, algorithm))
            } else if unsafe shim_PKCS7_is_data(safe) != 0, let bags = unsafe PKCS12_unpack_p7data(safe) {
                defer { unsafe shim_sk_PKCS12_SAFEBAG_pop_free(bags) }
                unsafe self.readBags(bags)
            }
        }
    }

    private mutating func readChecksum(of file: OpaquePointer) {
        guard unsafe PKCS12_mac_present(file) == 1 else { return }
        var algorithm: UnsafePointer<X509_ALGOR>?
        var count: UnsafePointer<ASN1_INTEGER>?
        unsafe PKCS12_get0_mac(nil, &algorithm, nil, &count, file)
        self.checksumDigest = unsafe algorithm.map { unsafe Self.name(of: $0) } ?? ""
        self.checksumIterationCount = unsafe count.map { unsafe KeyDerivationCost.number($0) } ?? 1
    }

    private mutating func readBags(_ bags: OpaquePointer) {
        for index in unsafe 0..<max(0, shim_sk_PKCS12_SAFEBAG_num(bags)) {
            guard let bag = unsafe shim_sk_PKCS12_SAFEBAG_value(bags, index) else { continue }
            switch unsafe PKCS12_SAFEBAG_get_nid(bag) {
            case NID_pkcs8ShroudedKeyBag:
                var algorithm: UnsafePointer<X509_ALGOR>?
                unsafe X509_SIG_get0(PKCS12_SAFEBAG_get0_pkcs8(bag), &algorithm, nil)
                if let algorithm = unsafe algorithm { unsafe self.parts.append(Self.part(.key, algorithm)) }
            case NID_keyBag: self.parts.append(Part(content: .key, isOriginalScheme: false))
            case NID_certBag:
                let part = Part(content: .certificates, isOriginalScheme: false)
                if !self.parts.contains(part) { self.parts.append(part) }
            default: break
            }
        }
    }

    private static func part(_ content: Content, _ algorithm: UnsafePointer<X509_ALGOR>) -> Part {
        var object: OpaquePointer?
        unsafe X509_ALGOR_get0(&object, nil, nil, algorithm)
        let number = unsafe OBJ_obj2nid(object)
        guard number != NID_pbes2 else {
            guard let scheme = unsafe KeyDerivationCost.parameters(of: algorithm, d2i_PBE2PARAM) else {
                return Part(content: content, cipher: "PBES2", isOriginalScheme: false)
            }
            defer { unsafe PBE2PARAM_free(scheme) }
            let cipher = unsafe scheme.pointee.encryption.map { unsafe Self.name(of: $0) } ?? "PBES2"
            let count = unsafe scheme.pointee.keyfunc.flatMap { unsafe Self.iterationCount(of: $0) }
            return Part(
                content: content,
                // For example AES-256-CBC; all of these are block ciphers in this mode.
                cipher: cipher.hasSuffix("-CBC") ? String(cipher.dropLast(4)) : cipher,
                iterationCount: count,
                isOriginalScheme: false
            )
        }
        let name: String? =
            switch number {
            case NID_pbe_WithSHA1And128BitRC4: "RC4-128"
            case NID_pbe_WithSHA1And40BitRC4: "RC4-40"
            case NID_pbe_WithSHA1And3_Key_TripleDES_CBC, NID_pbe_WithSHA1And2_Key_TripleDES_CBC: "3DES"
            case NID_pbe_WithSHA1And128BitRC2_CBC: "RC2-128"
            case NID_pbe_WithSHA1And40BitRC2_CBC: "RC2-40"
            case NID_pbeWithMD2AndRC2_CBC, NID_pbeWithMD5AndRC2_CBC, NID_pbeWithSHA1AndRC2_CBC: "RC2-64"
            case NID_pbeWithMD2AndDES_CBC, NID_pbeWithMD5AndDES_CBC, NID_pbeWithSHA1AndDES_CBC: "DES"
            default: nil
            }
        return Part(
            content: content,
            cipher: unsafe name ?? Self.name(of: algorithm),
            iterationCount: unsafe Self.iterationCount(of: algorithm),
            isOriginalScheme: name != nil
        )
    }

    private static func iterationCount(of algorithm: UnsafePointer<X509_ALGOR>) -> Int? {
        var object: OpaquePointer?
        unsafe X509_ALGOR_get0(&object, nil, nil, algorithm)
        if unsafe OBJ_obj2nid(object) == NID_id_pbkdf2 {
            guard let parameters = unsafe KeyDerivationCost.parameters(of: algorithm, d2i_PBKDF2PARAM) else {
                return nil
            }
            defer { unsafe PBKDF2PARAM_free(parameters) }
            return unsafe KeyDerivationCost.number(parameters.pointee.iter)
        }
        guard let parameters = unsafe KeyDerivationCost.parameters(of: algorithm, d2i_PBEPARAM) else { return nil }
        defer { unsafe PBEPARAM_free(parameters) }
        return unsafe KeyDerivationCost.number(parameters.pointee.iter)
    }

    private static func name(of algorithm: UnsafePointer<X509_ALGOR>) -> String {
        var object: OpaquePointer?
        unsafe X509_ALGOR_get0(&object, nil, nil, algorithm)
        let number = unsafe OBJ_obj2nid(object)
        guard number != NID_undef, let name = unsafe OBJ_nid2sn(number) else {
            return unsafe CertificateReader.dotted(object)
        }
        return unsafe String(cString: name)
    }
}
