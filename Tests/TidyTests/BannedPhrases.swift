// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Phrases that are not plain English: inverted syntax, translated idioms, riddles and metaphors.
///
/// A phrase that is split over two lines is also found.
enum BannedPhrases {
    /// In lower case; only whole words match.
    static let all = [
        "against the gateway's books", "anew", "anybody", "are let in", "are looked at", "are of no use", "are told",
        "as it was meant", "at any instant", "at most so many", "at random instants", "bear to see",
        "by default at all", "by this one flag", "close in on", "closed in upon", "does not like", "gives it away",
        "go on behind", "go on where", "goes on undisturbed", "goes on where", "goes on where it was", "gone on from",
        "gone on with", "half done", "hangs up on", "hardly meant", "has had its way", "heard of it", "hears of",
        "held against", "holds up", "hung up on", "in its midst", "in silence", "in the midst", "is gone on",
        "is let in", "is looked at", "is no authority", "is no file", "is no journal", "is not liked", "is not told",
        "is of no use", "is spoken to", "is told", "its own make", "lest", "lets in", "made where it is not there",
        "mended", "mends", "must bear", "neither hexadecimal digits", "no authority's", "nobody is told",
        "nobody knows", "nobody knows more", "nobody listens", "nobody takes", "not to be had",
        "nothing follows a comma", "of another make", "of its own accord", "of nonsense", "of one's own",
        "of other makes", "of their own accord", "on every way out", "one behind the other", "one's own",
        "other end is there", "outweigh", "provider told", "put up with", "puts on the list", "puts up with",
        "rows that can go", "said as it is", "said to be later", "say it again for each", "says once", "see to it that",
        "sees to it", "send a line so often", "service not reached", "slips of the pen", "so many at most",
        "so many bytes", "so many lines", "so many tokens", "so many were", "so much time", "so often at most",
        "somebody else", "something else than a token", "stands behind", "take it that", "take out what is not needed",
        "takes it for", "takes it that", "takes off", "talk goes to", "the fate of", "the own certificate",
        "the own side", "the way of a tuple", "there is no such key", "throw away", "throw-away", "throwing away",
        "thrown away", "throws away", "to be had", "to be read to its end", "to see to it", "unsent at last",
        "was told", "what became of", "what becomes of", "what is known of", "what is said of", "what others know",
        "what there is of", "when it is put right", "where it is not there", "where there is none",
        "which is tried again", "who asks twice", "who is at it", "whoever", "whose fate", "without a mark",
        "without a word", "without proving anything", "would be of use",
    ]

    /// The folders and documents that the rule covers.
    static let folders: Set<Substring> = [
        "Sources", "Tests", "Snippets", "Benchmarks", "docs", "Packaging", "Scripts", "README.md", "CHANGELOG.md",
        "CONTRIBUTING.md", "SECURITY.md",
    ]

    /// Whether the rule covers a file; it does not cover the samples of the rule.
    static func covers(_ file: SourceFile) -> Bool {
        guard let first = file.components.first, self.folders.contains(first) else { return false }
        return !file.path.hasPrefix("Tests/TidyTests/")
    }

    /// The phrases of a file, each with the line on which it begins, counted from 1.
    static func found(in file: SourceFile) -> [(line: Int, phrase: String)] {
        var text: [UInt8] = []
        text.reserveCapacity(file.text.utf8.count)
        var starts: [Int] = []
        for line in file.lines {
            starts.append(text.count)
            // A phrase may continue after the marker of a comment or heading.
            let rest = line.utf8.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x2F || $0 == 0x23 || $0 == 0x2A }
            for byte in rest { text.append((0x41...0x5A).contains(byte) ? byte | 0x20 : byte == 0 ? 0x20 : byte) }
            text.append(0x20)
        }
        text.append(0)
        return self.all.flatMap { phrase in
            self.offsets(of: phrase, in: text).map { offset in
                // A line starts at or before the offset, so one is found.
                (line: starts.partitioningIndex { $0 > offset }, phrase: phrase)
            }
        }
    }

    /// The offsets of a phrase in text that ends with NUL; `strstr` is much faster than a search in a `String`.
    private static func offsets(of phrase: String, in text: [UInt8]) -> [Int] {
        var found: [Int] = []
        text.withUnsafeBytes { memory in
            guard let start = memory.assumingMemoryBound(to: CChar.self).baseAddress else { return }
            var rest = start
            while let hit = strstr(rest, phrase) {
                let first = UnsafePointer(hit) - start
                let end = first + phrase.utf8.count
                let isWord = first == 0 || !Self.isLetter(memory[first - 1])
                if isWord, !Self.isLetter(memory[end]) { found.append(first) }
                rest = start + end
            }
        }
        return found
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }
}

extension [Int] {
    /// The index of the first element that meets a condition, which all later elements also meet.
    fileprivate func partitioningIndex(where holds: (Int) -> Bool) -> Int {
        var (low, high) = (0, self.count)
        while low < high {
            let middle = (low + high) / 2
            if holds(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
