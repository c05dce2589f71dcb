// SPDX-License-Identifier: Apache-2.0

import FileSupport
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
}
