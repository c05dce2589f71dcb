// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import APNSHTTP2

/// What the client writes, read by an implementation of HPACK that is not ours.
@Suite("The headers of requests")
struct PushHeadersTests {
    private struct Peer {
        var decoder = HPACKDecoder(allocator: ByteBufferAllocator())

        mutating func read(_ buffer: inout ByteBuffer) throws -> [(name: String, value: String, HPACKIndexing)] {
            let header = buffer.readMultipleIntegers(as: (UInt32, UInt8, UInt32).self)
            let (first, flags, stream) = try #require(header)
            #expect(first & 0xFF == 1)
            #expect(flags == 4)
            #expect(stream == 7)
            let rest = buffer.readSlice(length: Int(first >> 8))
            var block = try #require(rest)
            #expect(buffer.readableBytes == 0)
            return try self.decoder.decodeHeaders(from: &block).map { ($0.0, $0.1, $0.2) }
        }
    }

    private func expected(_ request: PushRequest, _ authorization: String?) -> [String] {
        var headers = [":method: POST", ":scheme: https", ":authority: host", ":path: /3/device/"]
        headers[3] += request.token.hexadecimal
        if let authorization { headers.append("authorization: \(authorization)") }
        headers.append("apns-id: \(request.identifier)")
        if let expiration = request.expiration { headers.append("apns-expiration: \(expiration)") }
        if let collapse = request.collapseIdentifier { headers.append("apns-collapse-id: \(collapse)") }
        if let topic = request.topic { headers.append("apns-topic: \(topic)") }
        if let type = request.pushType { headers.append("apns-push-type: \(type.rawValue)") }
        if let priority = request.priority { headers.append("apns-priority: \(priority)") }
        return headers
    }

    private func request(_ random: inout SplitMix64) throws -> PushRequest {
        let bytes = (0..<Int.random(in: 1...100, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random)
        }
        var request = PushRequest(
            token: try DeviceToken(bytes: bytes),
            payload: ByteBuffer(string: "{}"),
            identifier: PushIdentifier(using: &random)
        )
        request.topic =
            [nil, "com.example.app", "com.example.\(UInt8.random(in: 0...255, using: &random))"]
            .randomElement(using: &random) ?? nil
        request.pushType = [nil, .alert, .voip, .background].randomElement(using: &random) ?? nil
        request.priority = [nil, 1, 5, 10].randomElement(using: &random) ?? nil
        request.expiration = [nil, 0, .max].randomElement(using: &random) ?? nil
        let length = Int.random(in: 1...64, using: &random)
        request.collapseIdentifier = Bool.random(using: &random) ? String(repeating: "c", count: length) : nil
        return request
    }

    /// Goal: the other end reads what was meant, whatever the requests and the size of its table.
    ///
    /// Method: walk at random from a seed the failure names; the table fills up in most walks. In those of odd
    /// seeds, requests come in rows that differ in their tokens only, as those of a batch do.
    @Test(arguments: 0..<100 as Range<UInt64>)
    func `another implementation reads what was meant`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var headers = PushHeaders(authority: "host")
        var peer = Peer()
        if seed.isMultiple(of: 2) {
            let size = UInt32([0, 1, 100, 300, 4095, 4096, 70_000][Int(seed / 2) % 7])
            headers.setTableByteCountMax(size)
            peer.decoder = HPACKDecoder(allocator: ByteBufferAllocator())
        }
        var last: PushRequest?
        for number in 0..<150 {
            if seed % 5 == 4, number == 75 { headers.setTableByteCountMax(200) }
            var request = try self.request(&random)
            if seed % 2 == 1, let last, Int.random(in: 0..<4, using: &random) > 0 {
                let (token, identifier) = (request.token, request.identifier)
                request = last
                (request.token, request.identifier) = (token, identifier)
            }
            last = request
            let authorization: String? =
                seed.isMultiple(of: 3) ? "bearer " + String(repeating: "t", count: number * 3) : nil
            var buffer = ByteBuffer()
            headers.write(request, authorization: authorization, stream: 7, to: &buffer)
            let read = try peer.read(&buffer).map { "\($0.name): \($0.value)" }
            #expect(read == self.expected(request, authorization), "seed \(seed), request \(number)")
        }
    }

    @Test(arguments: ["apns-expiration", "apns-collapse-id"])
    func `a header that comes for the first time moves no other`(_ name: String) throws {
        var headers = PushHeaders(authority: "host")
        var peer = Peer()
        for number in 0..<4 {
            var request = PushRequest(
                token: try DeviceToken(bytes: [1, 2]),
                payload: ByteBuffer(string: "{}"),
                topic: "com.example.app"
            )
            if number == 2, name == "apns-expiration" { request.expiration = 1 }
            if number == 2, name == "apns-collapse-id" { request.collapseIdentifier = "c" }
            var buffer = ByteBuffer()
            headers.write(request, authorization: nil, stream: 7, to: &buffer)
            #expect(try peer.read(&buffer).map { "\($0.name): \($0.value)" } == self.expected(request, nil))
        }
    }

    @Test func `tokens and secrets are never indexed, and what differs is only once`() throws {
        var headers = PushHeaders(authority: "host")
        var peer = Peer()
        var byteCounts: [Int] = []
        for number in 0..<3 {
            var request = PushRequest(
                token: try DeviceToken(bytes: [1, 2]),
                payload: ByteBuffer(string: "{}"),
                topic: "com.example.app"
            )
            request.expiration = UInt32(number)
            var buffer = ByteBuffer()
            headers.write(request, authorization: "bearer x", stream: 7, to: &buffer)
            byteCounts.append(buffer.readableBytes)
            var how: [String: HPACKIndexing] = [:]
            for (name, _, indexing) in try peer.read(&buffer) { how[name] = indexing }
            #expect(how[":path"] == .neverIndexed)
            #expect(how["authorization"] == .neverIndexed)
            #expect(how["apns-id"] == (number == 0 ? .indexable : .nonIndexable))
            #expect(how["apns-expiration"] == (number == 0 ? .indexable : .nonIndexable))
            #expect(how["apns-topic"] == .indexable)
        }
        #expect(byteCounts[1] < byteCounts[0] - 30)
        #expect(byteCounts[1] == byteCounts[2])
    }
}
