// SPDX-License-Identifier: Apache-2.0

/// Finds the intended name for a misspelled one.
package enum NearestName {
    /// The minimum number of letters for recognizing the start of a longer name.
    private static let letterCountMin = 3

    /// Longer input is not compared, since names are short.
    private static let characterCountMax = 64

    /// Finds the nearest of some names.
    ///
    /// - Parameters:
    ///   - typed: the misspelled name, such as `--cert`.
    ///   - names: the valid names, such as `--certificate`.
    /// - Returns: the nearest name; `nil` if none is similar.
    package static func find(_ typed: String, in names: some Sequence<String>) -> String? {
        let word = Self.letters(String(typed.prefix(Self.characterCountMax)))
        guard !word.isEmpty else { return nil }
        let ranked = names.compactMap { name in Self.rank(word, Self.letters(name)).map { (name: name, rank: $0) } }
        return ranked.min { $0.rank < $1.rank }?.name
    }

    /// Names are compared without case, leading hyphens and underscores.
    private static func letters(_ name: String) -> String {
        name.drop { $0 == "-" }.lowercased().replacing("_", with: "-")
    }

    /// The distance between a name and the input; `nil` if they are different words.
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
