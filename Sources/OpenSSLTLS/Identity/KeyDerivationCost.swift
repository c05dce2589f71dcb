// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Adds up the cost of deriving the keys that decrypt a file, before any is derived.
///
/// The file contains the iteration counts in clear text, without a limit: 30,000,000 iterations take a minute.
///
/// - SeeAlso: RFC 7292, appendix B; RFC 8018, appendix A; RFC 7914, section 7; RFC 9579.
struct KeyDerivationCost {
    /// The maximum number of iterations for all keys of one file; they take a few seconds.
    ///
    /// Programs that export PKCS#12 files use between 1 and 600,000 for each of three keys.
    static let iterationCountMax = 5_000_000

    /// OID of PBMAC1, which OpenSSL 3.4 and later may use to sign a PKCS#12 file.
    private static let messageAuthenticationScheme = "1.2.840.113549.1.5.14"

    private var iterationCount = 0

    /// Adds the key of a PKCS#12 file's checksum.
    mutating func add(checksumOf file: OpaquePointer) throws(TLSError) {
        guard unsafe PKCS12_mac_present(file) == 1 else { return }
        var algorithm: UnsafePointer<X509_ALGOR>?
        var count: UnsafePointer<ASN1_INTEGER>?
        unsafe PKCS12_get0_mac(nil, &algorithm, nil, &count, file)
        // Without a count, there is one iteration.
        if let count = unsafe count { try unsafe self.add(Self.number(count)) }
        guard let algorithm = unsafe algorithm,
            unsafe Self.identifier(of: algorithm) == Self.messageAuthenticationScheme
        else { return }
        try unsafe self.add(schemeOf: algorithm)
    }

    /// Adds a key for decryption.
    mutating func add(_ algorithm: UnsafePointer<X509_ALGOR>) throws(TLSError) {
        var object: OpaquePointer?
        unsafe X509_ALGOR_get0(&object, nil, nil, algorithm)
        switch unsafe OBJ_obj2nid(object) {
        case NID_pbes2: try unsafe self.add(schemeOf: algorithm)
        case NID_id_pbkdf2:
            guard let parameters = unsafe Self.parameters(of: algorithm, d2i_PBKDF2PARAM) else { return }
            defer { unsafe PBKDF2PARAM_free(parameters) }
            try unsafe self.add(Self.number(parameters.pointee.iter))
        case NID_id_scrypt:
            guard let parameters = unsafe Self.parameters(of: algorithm, d2i_SCRYPT_PARAMS) else { return }
            defer { unsafe SCRYPT_PARAMS_free(parameters) }
            let numbers = unsafe [
                parameters.pointee.costParameter, parameters.pointee.blockSize,
                parameters.pointee.parallelizationParameter,
            ]
            // Each of its steps mixes two halves.
            try unsafe self.add(numbers.reduce(2) { unsafe Self.product($0, Self.number($1)) })
        default:
            // The schemes of PKCS#5 version 1 and of PKCS#12; other algorithms have no such parameters.
            guard let parameters = unsafe Self.parameters(of: algorithm, d2i_PBEPARAM) else { return }
            defer { unsafe PBEPARAM_free(parameters) }
            try unsafe self.add(Self.number(parameters.pointee.iter))
        }
    }

    /// Adds a scheme that names its key derivation function.
    private mutating func add(schemeOf algorithm: UnsafePointer<X509_ALGOR>) throws(TLSError) {
        guard let parameters = unsafe Self.parameters(of: algorithm, d2i_PBE2PARAM) else { return }
        defer { unsafe PBE2PARAM_free(parameters) }
        // A nested scheme is not a function; OpenSSL rejects it as well.
        guard let function = unsafe parameters.pointee.keyfunc, unsafe Self.isFunction(function) else { return }
        try unsafe self.add(function)
    }

    private mutating func add(_ count: Int) throws(TLSError) {
        let (sum, isOver) = self.iterationCount.addingReportingOverflow(count)
        self.iterationCount = isOver ? .max : sum
        guard self.iterationCount <= Self.iterationCountMax else {
            throw .keyDerivationTooLong(iterationCount: self.iterationCount, iterationCountMax: Self.iterationCountMax)
        }
    }

    private static func isFunction(_ algorithm: UnsafePointer<X509_ALGOR>) -> Bool {
        var object: OpaquePointer?
        unsafe X509_ALGOR_get0(&object, nil, nil, algorithm)
        return unsafe [NID_id_pbkdf2, NID_id_scrypt].contains(OBJ_obj2nid(object))
    }

    private static func identifier(of algorithm: UnsafePointer<X509_ALGOR>) -> String {
        var object: OpaquePointer?
        unsafe X509_ALGOR_get0(&object, nil, nil, algorithm)
        return unsafe CertificateReader.dotted(object)
    }

    /// The decoded parameters of an algorithm; the caller owns them.
    static func parameters<Value>(
        of algorithm: UnsafePointer<X509_ALGOR>,
        _ decode: (
            UnsafeMutablePointer<UnsafeMutablePointer<Value>?>?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, Int
        ) -> UnsafeMutablePointer<Value>?
    ) -> UnsafeMutablePointer<Value>? {
        defer { ERR_clear_error() }
        var type: Int32 = 0
        var value: UnsafeRawPointer?
        unsafe X509_ALGOR_get0(nil, &type, &value, algorithm)
        guard type == V_ASN1_SEQUENCE, let value = unsafe value else { return nil }
        let string = unsafe value.assumingMemoryBound(to: ASN1_STRING.self)
        var position = unsafe ASN1_STRING_get0_data(string)
        return unsafe decode(nil, &position, Int(ASN1_STRING_length(string)))
    }

    /// A missing or too large number becomes the maximum; a number below 1 costs nothing.
    static func number(_ integer: UnsafePointer<ASN1_INTEGER>?) -> Int {
        var number: Int64 = 0
        guard let integer = unsafe integer, unsafe ASN1_INTEGER_get_int64(&number, integer) == 1 else {
            ERR_clear_error()
            return .max
        }
        return max(0, Int(number))
    }

    private static func product(_ one: Int, _ other: Int) -> Int {
        let (product, isOver) = one.multipliedReportingOverflow(by: other)
        return isOver ? .max : product
    }
}
