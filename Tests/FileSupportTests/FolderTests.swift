// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import TestSupport
import Testing

@Suite struct FolderTests {
    @Test(
        arguments: [
            "": ".", "a": ".", "a/": ".", "a/b": "a", "a//b": "a", "a/b/": "a", "./a": ".", "../a": "..", ".": ".",
            "..": ".", "/": "/", "//": "/", "/a": "/", "/a/": "/", "//a": "/", "/a/b": "/a", "/a//b//": "/a",
            "ä/ö": "ä", "a/./b": "a/.",
        ]
    ) func `the folder of a file is its path without the last component`(_ path: String, _ folder: String) {
        #expect(Folder.of(path) == folder)
    }

    @Test func `all paths to a folder have the same resolved path, also before it exists`() throws {
        let folder = try TemporaryFolder()
        let path = Folder.resolved(folder.path) + "/real"
        #expect(Folder.resolved(folder.path + "/./real//") == path)
        #expect(mkdir(path, 0o700) == 0 && symlink("real", folder.path + "/link") == 0)
        for spelling in ["real/", "./real", "link", "link/../real"] {
            #expect(Folder.resolved(folder.path + "/" + spelling) == path, "\(spelling)")
        }
        #expect(Folder.resolved(folder.path + "/link/later") == path + "/later")
        #expect(Folder.resolved("/") == "/" && Folder.resolved("/none-such") == "/none-such")
        #expect(Folder.resolved("") == "")
    }
}
