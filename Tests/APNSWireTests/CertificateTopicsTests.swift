// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

/// Goal: the topics that are written into a certificate are those that are read from it.
struct CertificateTopicsTests {
    @Test(arguments: [1, 2, 5, 6, 7, 20, 500]) func `what is written is read, in each form of lengths`(_ count: Int)
        throws
    {
        let topics = (1...count).map { number in
            CertificateTopics.Topic(name: "com.example.app\(number)" + ["", ".voip", ".complication"][number % 3])
        }
        let list = CertificateTopics(topics)
        #expect(try CertificateTopics(parsing: list.bytes) == list)
        // A name of 128 bytes has a length of two bytes of its own.
        let long = CertificateTopics([.init(name: String(repeating: "a", count: 127 + count))])
        #expect(try CertificateTopics(parsing: long.bytes) == long)
    }

    @Test func `the kind is in the end of a name`() {
        let names = ["com.example.app", "com.example.app.voip", "com.example.app.complication", "voip"]
        #expect(names.map { CertificateTopics.Topic(name: $0).kind } == ["app", "voip", "complication", "app"])
    }
}
