// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import APNSProviderHTTP2

/// The client's output, decoded by another implementation of HPACK.
@Suite("The header fields of requests")
struct HTTP2HeaderFieldsTests {
    private func expected(_ request: PushRequest, _ authorization: String?) -> [String] {
        var headers = [":method: POST", ":scheme: https", ":authority: host", ":path: /3/device/"]
        headers[3] += request.token.hexadecimal
        headers.append("apns-id: \(request.apnsID)")
        if let topic = request.topic { headers.append("apns-topic: \(topic)") }
        if let type = request.pushType { headers.append("apns-push-type: \(type.rawValue)") }
        if let priority = request.priority { headers.append("apns-priority: \(priority)") }
        if let authorization { headers.append("authorization: \(authorization)") }
        if let expiration = request.expiry.wireValue { headers.append("apns-expiration: \(expiration)") }
        if let collapse = request.collapseID { headers.append("apns-collapse-id: \(collapse)") }
        return headers
    }

    private func request(_ random: inout SplitMix64) throws -> PushRequest {
        let bytes = (0..<Int.random(in: 1...100, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        var request = PushRequest(
            token: try DeviceToken(bytes: bytes),
            payload: ByteBuffer(string: "{}"),
            apnsID: PushIdentifier(using: &random)
        )
        request.topic =
            [nil, "com.example.app", "com.example.\(UInt8.random(in: 0...255, using: &random))"]
            .randomElement(using: &random) ?? nil
        request.pushType = [nil, .alert, .voip, .background].randomElement(using: &random) ?? nil
        request.priority = [nil, 1, 5, 10].randomElement(using: &random) ?? nil
        request.expiry = PushExpiry(wireValue: [nil, 0, .max].randomElement(using: &random) ?? nil)
        let length = Int.random(in: 1...64, using: &random)
        request.collapseID = Bool.random(using: &random) ? String(repeating: "c", count: length) : nil
        return request
    }

    private func read(
        _ frame: PushConnectionHarness.Frame?,
        _ decoder: inout HPACKDecoder
    ) throws -> [(name: String, value: String, HPACKIndexing)] {
        let frame = try #require(frame)
        #expect(frame.flags == 4)
        var block = ByteBuffer(bytes: frame.payload)
        return try decoder.decodeHeaders(from: &block).map { ($0.0, $0.1, $0.2) }
    }

    /// Goal: the service decodes the encoded fields, whatever the requests and the size of its table.
    ///
    /// Method: random walk from a seed that the failure contains; the table fills up in most walks.
    @Test(arguments: 0..<TestEffort.count(20, long: 100) as Range<UInt64>)
    func `another implementation decodes the fields`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let size: UInt32 = [0, 1, 100, 300, 4095, 4096, 70_000][Int(seed) % 7]
        var harness = try PushConnectionHarness(requests: 0, settings: [(1, size), (3, 1000)])
        var decoder = HPACKDecoder(allocator: ByteBufferAllocator())
        if size > 4096 { decoder.maxDynamicTableLength = Int(size) }
        var last: PushRequest?
        for number in 0..<TestEffort.count(100, long: 150) {
            if seed % 5 == 4, number == 75 { harness.receive(HTTP2Wire.settings([(1, 200)])) }
            var request = try self.request(&random)
            // In series that differ only in their tokens, as in a batch.
            if seed % 2 == 1, let last, Int.random(in: 0..<4, using: &random) > 0 {
                let (token, identifier) = (request.token, request.apnsID)
                request = last
                (request.token, request.apnsID) = (token, identifier)
            }
            last = request
            let authorization: String? =
                seed.isMultiple(of: 3) ? "bearer " + String(repeating: "t", count: number * 3) : nil
            harness.write(request, authorization: authorization)
            harness.send()
            let read = try self.read(harness.frames(.headers).last, &decoder).map { "\($0.name): \($0.value)" }
            #expect(read == self.expected(request, authorization), "seed \(seed), request \(number)")
        }
    }

    @Test(arguments: ["apns-expiration", "apns-collapse-id"])
    func `a field that occurs for the first time does not change others`(_ name: String) throws {
        var harness = try PushConnectionHarness(requests: 0)
        var decoder = HPACKDecoder(allocator: ByteBufferAllocator())
        for number in 0..<4 {
            var request = PushRequest(
                token: try DeviceToken(bytes: [1, 2]),
                payload: ByteBuffer(string: "{}"),
                topic: "com.example.app"
            )
            if number == 2, name == "apns-expiration" { request.expiry = .at(secondsSince1970: 1) }
            if number == 2, name == "apns-collapse-id" { request.collapseID = "c" }
            harness.write(request, authorization: nil)
            harness.send()
            let read = try self.read(harness.frames(.headers).last, &decoder).map { "\($0.name): \($0.value)" }
            #expect(read == self.expected(request, nil))
        }
    }

    @Test func `tokens and secrets are never indexed, and variable fields only once`() throws {
        var harness = try PushConnectionHarness(requests: 0)
        var decoder = HPACKDecoder(allocator: ByteBufferAllocator())
        var byteCounts: [Int] = []
        for number in 0..<3 {
            var request = PushRequest(
                token: try DeviceToken(bytes: [1, 2]),
                payload: ByteBuffer(string: "{}"),
                topic: "com.example.app"
            )
            request.expiry = .at(secondsSince1970: Int64(1_000_000 + number))
            harness.write(request, authorization: "bearer x")
            harness.send()
            let frame = harness.frames(.headers).last
            byteCounts.append(frame?.payload.count ?? 0)
            var how: [String: HPACKIndexing] = [:]
            for (name, _, indexing) in try self.read(frame, &decoder) { how[name] = indexing }
            #expect(how[":path"] == .neverIndexed)
            #expect(how["authorization"] == .neverIndexed)
            #expect(how["apns-id"] == (number == 0 ? .indexable : .neverIndexed))
            #expect(how["apns-expiration"] == (number == 0 ? .indexable : .neverIndexed))
            #expect(how["apns-topic"] == .indexable)
        }
        #expect(byteCounts[1] < byteCounts[0] - 30)
    }
}
