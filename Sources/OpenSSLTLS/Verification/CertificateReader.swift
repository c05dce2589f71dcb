// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Glibc

/// Reads the fields of an OpenSSL certificate.
enum CertificateReader {
    static func der(of certificate: OpaquePointer) -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_X509(certificate, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { return [] }
        defer { unsafe shim_OPENSSL_free(bytes) }
        return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    static func fields(of name: OpaquePointer?) -> [String: [String]] {
        var fields: [String: [String]] = [:]
        for index in unsafe 0..<X509_NAME_entry_count(name) {
            guard let entry = unsafe X509_NAME_get_entry(name, index) else { continue }
            unsafe fields[Self.shortName(of: X509_NAME_ENTRY_get_object(entry)), default: []]
                .append(Self.text(of: X509_NAME_ENTRY_get_data(entry)))
        }
        return fields
    }

    static func text(of name: OpaquePointer?) -> String {
        guard let memory = unsafe BIO_new(BIO_s_mem()) else { return "" }
        defer { unsafe BIO_free(memory) }
        _ = unsafe shim_X509_NAME_print(memory, name)
        return unsafe Self.content(of: memory)
    }

    static func serialNumber(of certificate: OpaquePointer) -> String {
        guard let number = unsafe ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nil) else { return "" }
        defer { unsafe BN_free(number) }
        guard let text = unsafe BN_bn2hex(number) else { return "" }
        defer { unsafe shim_OPENSSL_free(text) }
        return unsafe String(cString: text)
    }

    static func seconds(of time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        guard let epoch = unsafe ASN1_TIME_set(nil, 0) else { return 0 }
        defer { unsafe ASN1_STRING_free(epoch) }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return 0 }
        return Int64(days) * 86_400 + Int64(seconds)
    }

    static func fingerprint(of certificate: OpaquePointer) -> String {
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard unsafe X509_digest(certificate, EVP_sha256(), &digest, &count) == 1 else { return "" }
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for byte in digest.prefix(Int(count)) {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    static func alternativeNames(of certificate: OpaquePointer) -> [String] {
        guard let stack = unsafe X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else { return [] }
        let names = OpaquePointer(stack)
        defer { unsafe GENERAL_NAMES_free(names) }
        var texts: [String] = []
        for index in unsafe 0..<shim_sk_GENERAL_NAME_num(names) {
            guard let name = unsafe shim_sk_GENERAL_NAME_value(names, index) else { continue }
            switch unsafe name.pointee.type {
            case GEN_DNS: unsafe texts.append(Self.text(of: name.pointee.d.dNSName))
            case GEN_IPADD: unsafe texts.append(Self.address(Self.bytes(of: name.pointee.d.iPAddress)))
            default: break
            }
        }
        return texts
    }

    static func extensions(of certificate: OpaquePointer) -> [String: [UInt8]] {
        var extensions: [String: [UInt8]] = [:]
        for index in unsafe 0..<X509_get_ext_count(certificate) {
            guard let item = unsafe X509_get_ext(certificate, index) else { continue }
            unsafe extensions[Self.dotted(X509_EXTENSION_get_object(item))] = Self.bytes(
                of: X509_EXTENSION_get_data(item)
            )
        }
        return extensions
    }

    private static func shortName(of object: OpaquePointer?) -> String {
        let number = unsafe OBJ_obj2nid(object)
        guard number != NID_undef, let name = unsafe OBJ_nid2sn(number) else { return unsafe Self.dotted(object) }
        return unsafe String(cString: name)
    }

    static func dotted(_ object: OpaquePointer?) -> String {
        var text = [CChar](repeating: 0, count: 256)
        let count = unsafe OBJ_obj2txt(&text, Int32(text.count), object, 1)
        guard count > 0 else { return "" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func text(of string: UnsafePointer<ASN1_STRING>?) -> String {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe ASN1_STRING_to_UTF8(&bytes, string)
        guard let bytes = unsafe bytes, count >= 0 else { return "" }
        defer { unsafe shim_OPENSSL_free(bytes) }
        return unsafe String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    }

    private static func bytes(of string: UnsafePointer<ASN1_STRING>?) -> [UInt8] {
        guard let data = unsafe ASN1_STRING_get0_data(string) else { return [] }
        return unsafe Array(UnsafeBufferPointer(start: data, count: Int(ASN1_STRING_length(string))))
    }

    private static func address(_ bytes: [UInt8]) -> String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard bytes.count == 16, unsafe inet_ntop(AF_INET6, bytes, &text, socklen_t(text.count)) != nil else {
            return bytes.map(String.init).joined(separator: ".")
        }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func content(of memory: OpaquePointer) -> String {
        var data: UnsafeMutablePointer<CChar>?
        let count = unsafe shim_BIO_get_mem_data(memory, &data)
        guard let data = unsafe data, count > 0 else { return "" }
        return unsafe String(decoding: UnsafeRawBufferPointer(start: data, count: count), as: UTF8.self)
    }
}
