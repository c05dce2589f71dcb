// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

/// Goal: decoding an encoded list of topics gives the same list.
struct CertificateTopicsTests {
    @Test(arguments: [1, 2, 5, 6, 7, 20, 500]) func `topics are encoded and decoded with each form of length`(
        _ count: Int
    )
        throws
    {
        let topics = (1...count).map { number in
            CertificateTopics.Topic(name: "com.example.app\(number)" + ["", ".voip", ".complication"][number % 3])
        }
        let list = CertificateTopics(topics)
        #expect(try CertificateTopics(parsing: list.bytes) == list)
        // A name of 128 bytes has a length of two bytes.
        let long = CertificateTopics([.init(name: String(repeating: "a", count: 127 + count))])
        #expect(try CertificateTopics(parsing: long.bytes) == long)
    }

    @Test func `the suffix of a name determines the kind`() {
        let names = ["com.example.app", "com.example.app.voip", "com.example.app.complication", "voip"]
        #expect(names.map { CertificateTopics.Topic(name: $0).kind } == ["app", "voip", "complication", "app"])
    }
}
