// SPDX-License-Identifier: Apache-2.0

/// Finds the name that somebody meant who typed another one.
package enum NearestName {
    /// The fewest letters that say something about a longer name.
    private static let letterCountMin = 3

    /// What is typed may be as long as a command line; names are short.
    private static let characterCountMax = 64

    /// Finds the nearest of some names.
    ///
    /// - Parameters:
    ///   - typed: the misspelled name, such as `--cert`.
    ///   - names: the right ones, such as `--certificate`.
    /// - Returns: the nearest; `nil` if none is near.
    package static func find(_ typed: String, in names: some Sequence<String>) -> String? {
        let word = Self.letters(String(typed.prefix(Self.characterCountMax)))
        guard !word.isEmpty else { return nil }
        let ranked = names.compactMap { name in Self.rank(word, Self.letters(name)).map { (name: name, rank: $0) } }
        return ranked.min { $0.rank < $1.rank }?.name
    }

    /// Case, leading hyphens and underscores tell no names apart.
    private static func letters(_ name: String) -> String {
        name.drop { $0 == "-" }.lowercased().replacing("_", with: "-")
    }

    /// How far a name is from what was typed; `nil` if it is another word.
    private static func rank(_ typed: String, _ name: String) -> Int? {
        let (typedLetters, nameLetters) = (typed.replacing("-", with: ""), name.replacing("-", with: ""))
        if typedLetters == nameLetters { return 0 }
        let distance = typed.editDistance(to: name)
        let shorter = min(typed.count, name.count)
        if distance == 1, shorter > 1 { return 1 }
        let difference = abs(typed.count - name.count)
        if shorter >= Self.letterCountMin, typed.hasPrefix(name) || name.hasPrefix(typed) { return 10 + difference }
        if distance <= shorter / 3 { return 100 + distance }
        let (typedWords, nameWords) = (typed.split(separator: "-"), name.split(separator: "-"))
        if let first = typedWords.first, first.count >= Self.letterCountMin, name.hasPrefix(first) {
            return 200 + difference
        }
        if nameWords.contains(where: { $0.count > Self.letterCountMin && $0 == typed }) { return 300 + difference }
        return nil
    }
}
