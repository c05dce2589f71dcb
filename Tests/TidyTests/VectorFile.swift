// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A file of golden vectors, as far as it can be checked without the code that it checks.
struct VectorFile {
    struct Vector: Decodable {
        let id: String
        let length: Int
        let hex: String
    }

    let path: String
    let vectors: [Vector]

    init(path: String, json: String) throws {
        self.path = path
        self.vectors = try JSONDecoder().decode([Vector].self, from: Data(json.utf8))
    }

    var findings: [Finding] {
        var seen: Set<String> = []
        return self.vectors.flatMap { vector in
            var sentences: [String] = []
            if !seen.insert(vector.id).inserted { sentences.append("vector \(vector.id) is there twice") }
            if !vector.hex.allSatisfy({ $0.isHexDigit && !$0.isUppercase }) {
                sentences.append("vector \(vector.id) is not in lower-case hexadecimal")
            }
            if vector.hex.count != vector.length * 2 {
                sentences.append("vector \(vector.id) does not have its length")
            }
            return sentences.map { Finding(path: self.path, line: nil, sentence: $0) }
        }
    }
}
