// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A list of application protocols in the format of the protocol: each name is preceded by its length.
///
/// - SeeAlso: RFC 7301.
final class ApplicationProtocols: Sendable {
    let wire: [UInt8]

    init(_ names: [String]) throws(TLSError) {
        var wire: [UInt8] = []
        for name in names {
            guard (1...255).contains(name.utf8.count) else {
                throw .configurationUnusable(detail: "an application protocol has 1 to 255 bytes, unlike \"\(name)\"")
            }
            wire.append(UInt8(name.utf8.count))
            wire += name.utf8
        }
        guard wire.count <= Int(UInt16.max) else {
            throw .configurationUnusable(detail: "the application protocols exceed \(UInt16.max) bytes")
        }
        self.wire = wire
    }

    /// Makes a server choose its first protocol that the client offers, and reject a client that offers none of them.
    ///
    /// This object must outlive `context`.
    func install(on context: OpaquePointer) {
        let pointer = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe SSL_CTX_set_alpn_select_cb(
            context,
            { _, selected, selectedCount, offered, offeredCount, pointer in
                guard let pointer = unsafe pointer, let selected = unsafe selected,
                    let selectedCount = unsafe selectedCount
                else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                let protocols = unsafe Unmanaged<ApplicationProtocols>.fromOpaque(pointer).takeUnretainedValue()
                guard
                    let (position, count) = unsafe protocols.choose(
                        UnsafeBufferPointer(start: offered, count: Int(offeredCount))
                    )
                else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                // The choice must point into the client's list, which lives as long as OpenSSL needs it.
                unsafe selected.pointee = offered.map { unsafe $0 + position }
                unsafe selectedCount.pointee = UInt8(count)
                return SSL_TLSEXT_ERR_OK
            },
            unsafe pointer
        )
    }

    /// The position of the preferred protocol in `offered`, a list in the format of the protocol.
    private func choose(_ offered: UnsafeBufferPointer<UInt8>) -> (position: Int, count: Int)? {
        let offered = unsafe Array(offered)
        for own in Self.names(in: self.wire[...]) {
            for theirs in Self.names(in: offered[...]) where theirs.elementsEqual(own) {
                return (theirs.startIndex, theirs.count)
            }
        }
        return nil
    }

    private static func names<List: RandomAccessCollection<UInt8>>(in list: List) -> [List.SubSequence]
    where List.Index == Int {
        var names: [List.SubSequence] = []
        var position = list.startIndex
        while position < list.endIndex {
            let start = position + 1
            let end = start + Int(list[position])
            guard end <= list.endIndex else { break }
            names.append(list[start..<end])
            position = end
        }
        return names
    }
}
