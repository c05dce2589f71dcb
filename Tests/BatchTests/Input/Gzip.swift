// SPDX-License-Identifier: Apache-2.0

import CZlib
import TestSupport

/// Compresses bytes as one gzip member.
func gzip(_ bytes: [UInt8], level: CInt = 6) -> [UInt8] {
    var stream = z_stream()
    guard CZlib_deflateInit2(&stream, level, 15 + 16, 8) == Z_OK else { return [] }
    defer { deflateEnd(&stream) }
    var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, UInt(bytes.count))) + 64)
    var input = bytes
    let count = input.withUnsafeMutableBufferPointer { input in
        output.withUnsafeMutableBufferPointer { output in
            stream.next_in = input.baseAddress
            stream.avail_in = UInt32(input.count)
            stream.next_out = output.baseAddress
            stream.avail_out = UInt32(output.count)
            return deflate(&stream, Z_FINISH) == Z_STREAM_END ? output.count - Int(stream.avail_out) : 0
        }
    }
    return Array(output[..<count])
}

/// Compresses bytes as several gzip members, which may be empty.
func gzipMembers(_ bytes: [UInt8], _ random: inout SplitMix64) -> [UInt8] {
    var (members, rest): ([UInt8], ArraySlice<UInt8>) = ([], bytes[...])
    repeat {
        let count = Int.random(in: 0...rest.count, using: &random)
        members += gzip(Array(rest.prefix(count)), level: .random(in: 0...9, using: &random))
        rest = rest.dropFirst(count)
    } while !rest.isEmpty || Bool.random(using: &random)
    return members
}
