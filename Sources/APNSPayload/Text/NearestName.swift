// SPDX-License-Identifier: Apache-2.0

/// Finds the intended name for a misspelled one.
package enum NearestName {
    /// What counts as near.
    package enum Reach: Hashable, Sendable {
        /// Typing errors, other hyphens and underscores, and names that share a beginning or a word.
        case words
        /// One or two typing errors, and other hyphens and underscores.
        case typingErrors
    }

    /// The minimum number of letters for recognizing the start of a longer name.
    private static let letterCountMin = 3
    /// So many typing errors are one name; more may be another name.
    private static let typingErrorCountMax = 2

    /// Longer input is not compared, since names are short.
    private static let characterCountMax = 64

    /// Finds the nearest of some names.
    ///
    /// Returns the nearest name; `nil` if none is similar.
    package static func find(
        _ typed: String,
        in names: some Sequence<String>,
        _ reach: Reach = .words
    ) -> String? {
        let word = Self.letters(String(typed.prefix(Self.characterCountMax)))
        guard !word.isEmpty else { return nil }
        let ranked = names.compactMap { name in
            Self.rank(word, Self.letters(name), reach).map { (name: name, rank: $0) }
        }
        return ranked.min { $0.rank < $1.rank }?.name
    }

    /// Names are compared without case, leading hyphens, underscores and spaces.
    private static func letters(_ name: String) -> String {
        name.drop { $0 == "-" }.lowercased().replacing("_", with: "-").replacing(" ", with: "-")
    }

    /// The distance between a name and the input; `nil` if they are different words.
    private static func rank(_ typed: String, _ name: String, _ reach: Reach) -> Int? {
        let (typedLetters, nameLetters) = (typed.replacing("-", with: ""), name.replacing("-", with: ""))
        if typedLetters == nameLetters { return 0 }
        let shorter = min(typed.count, name.count)
        guard reach == .words else {
            let distance = typedLetters.editDistance(to: nameLetters)
            let isNear = distance == 1 || distance <= min(shorter / 3, Self.typingErrorCountMax)
            return shorter > 1 && isNear ? distance : nil
        }
        let distance = typed.editDistance(to: name)
        if distance == 1, shorter > 1 { return 1 }
        let difference = abs(typed.count - name.count)
        if shorter >= Self.letterCountMin, typed.hasPrefix(name) || name.hasPrefix(typed) { return 10 + difference }
        if distance <= shorter / 3 { return 100 + distance }
        let (typedWords, nameWords) = (typed.split(separator: "-"), name.split(separator: "-"))
        if let first = typedWords.first, first.count >= Self.letterCountMin, name.hasPrefix(first) {
            return 200 + difference
        }
        if nameWords.contains(where: { $0.count > Self.letterCountMin && $0 == typed }) { return 300 + difference }
        if typedWords.contains(where: { $0 == name }) { return 400 + difference }
        return name.count > Self.letterCountMin && typed.contains(name) ? 500 + difference : nil
    }
}

extension String {
    /// Describes a name that is unknown, with the nearest valid name and all valid names.
    ///
    /// Returns the name, cut after 64 characters, then such as "; did you mean port? Valid keys: host, port".
    package func answer(asUnknownOf names: [String], _ kind: String) -> String {
        let name = String(self.prefix(64))
        let list = names.joined(separator: ", ")
        guard let nearest = NearestName.find(name, in: names) else { return "\(name); valid \(kind): \(list)" }
        return "\(name); did you mean \(nearest)? Valid \(kind): \(list)"
    }
}

extension StringProtocol {
    /// The number of insertions, deletions, replacements and swaps of adjacent characters that turn this text into
    /// another.
    ///
    /// Returns the number; 0 if they are equal.
    package func editDistance(to other: some StringProtocol) -> Int {
        let (mine, its) = (Array(self), Array(other))
        guard !mine.isEmpty, !its.isEmpty else { return mine.count + its.count }
        var beforeLast: [Int] = []
        var last = Array(0...its.count)
        for row in 1...mine.count {
            var current = [row]
            for column in 1...its.count {
                let isSame = mine[row - 1] == its[column - 1]
                var distance = Swift.min(last[column] + 1, current[column - 1] + 1, last[column - 1] + (isSame ? 0 : 1))
                if row > 1, column > 1, mine[row - 1] == its[column - 2], mine[row - 2] == its[column - 1] {
                    distance = Swift.min(distance, beforeLast[column - 2] + 1)
                }
                current.append(distance)
            }
            (beforeLast, last) = (last, current)
        }
        return last[its.count]
    }
}
