// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc

/// The time of the next drain of a topic's list, stored in the spool so that it survives the process.
struct FeedbackSchedule {
    private let path: String
    private let folder: String

    /// The maximum number of bytes to read from its file.
    private static let contentByteCountMax = 32

    init(_ scope: TokenScope, in spool: FeedbackSpool) {
        self.path = spool.path(scope.fileStem + ".next")
        self.folder = spool.folder
    }

    /// The time in seconds since 1970; `nil` if it is unknown.
    func next() throws(SpoolError) -> Int64? {
        guard unsafe access(self.path, F_OK) == 0 else { return nil }
        let content = try SpoolFile(path: self.path, O_RDONLY).read(byteCount: Self.contentByteCountMax, at: 0)
        return Int64(String(decoding: content.prefix { $0 != 0x0A }, as: UTF8.self))
    }

    func store(_ time: Int64) throws(SpoolError) {
        let new = self.path + "-new"
        let file = try SpoolFile(path: new, O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(Array("\(time)\n".utf8))
        try file.synchronize()
        try SpoolNames.rename(new, to: self.path)
        try SpoolNames.synchronize(folder: self.folder)
    }
}
