// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// An argument whose error says what is expected, which the parser's own errors do not.
protocol ExplainedArgument: ExpressibleByArgument, Sendable {
    static var form: String { get }
}

extension ExplainedArgument {
    fileprivate static func parsed(_ text: String) throws -> Self {
        guard let value = Self(argument: text) else { throw ValidationError("expected \(Self.form)") }
        return value
    }
}

extension Int: ExplainedArgument {
    static let form = "a whole number"
}

extension UInt64: ExplainedArgument {
    static let form = "a whole number, which is not negative"
}

extension Double: ExplainedArgument {
    static let form = "a number"
}

extension ParsableArguments {
    /// Refuses a number that is out of range.
    func require<Number: FixedWidthInteger>(
        _ range: ClosedRange<Number>,
        _ option: String,
        _ number: Number?
    ) throws {
        guard let number, !range.contains(number) else { return }
        let (least, most) = (range.lowerBound, range.upperBound)
        let limits = most == .max ? "\(least) or more" : "from \(least) to \(most)"
        throw ValidationError("\(option) must be \(limits)")
    }

    /// Refuses the number of a port that does not exist; 0 lets the system choose one.
    func requirePort(_ option: String, _ number: Int?, from first: Int = 1) throws {
        try self.require(first...65535, option, number)
    }
}

extension Option {
    init<T: ExplainedArgument>(help: ArgumentHelp) where Value == T? {
        self.init(help: help, transform: T.parsed)
    }

    init<T: ExplainedArgument>(wrappedValue: [T], help: ArgumentHelp) where Value == [T] {
        self.init(wrappedValue: wrappedValue, help: help, transform: T.parsed)
    }

    init(help: ArgumentHelp) where Value: ExplainedArgument {
        self.init(help: help, transform: Value.parsed)
    }

    init(wrappedValue: Value, help: ArgumentHelp) where Value: ExplainedArgument {
        var help = help
        // The parser shows no default of a value that it does not read itself.
        help.abstract += " (default: \(wrappedValue))"
        self.init(wrappedValue: wrappedValue, help: help, transform: Value.parsed)
    }
}
