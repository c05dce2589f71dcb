// SPDX-License-Identifier: Apache-2.0

package import CoreMetrics
import NIOConcurrencyHelpers

/// Stores the values of swift-metrics, and writes them in Prometheus' format.
///
/// Timers become histograms in seconds. Labels come only from this program, so their number is small.
package final class GatewayMetrics: MetricsFactory {
    /// The type of a series.
    package enum Kind: String, Sendable { case counter, gauge, histogram }

    /// A value that is read when the metrics are requested.
    package struct Sample: Sendable {
        /// The name in Prometheus.
        package var name: String
        package var kind: Kind
        /// The labels and their values.
        package var dimensions: [(String, String)]
        package var value: Double

        /// Creates a sample.
        package init(name: String, kind: Kind = .gauge, dimensions: [(String, String)] = [], value: Double) {
            self.name = name
            self.kind = kind
            self.dimensions = dimensions
            self.value = value
        }
    }

    private struct Name: Hashable {
        var label: String
        var dimensions: String
    }

    /// One series.
    final class Series: CounterHandler, RecorderHandler, TimerHandler {
        private struct Values {
            var sum = 0.0
            var count = 0
            var buckets = [Int](repeating: 0, count: GatewayMetrics.bounds.count)
        }

        private let values = NIOLockedValueBox(Values())

        func increment(by amount: Int64) { self.values.withLockedValue { $0.sum += Double(amount) } }

        func reset() { self.values.withLockedValue { $0 = Values() } }

        func record(_ value: Int64) { self.record(Double(value)) }

        func record(_ value: Double) { self.values.withLockedValue { $0.sum = value } }

        func recordNanoseconds(_ duration: Int64) {
            let seconds = Double(duration) / 1_000_000_000
            let index = GatewayMetrics.bounds.firstIndex { seconds <= $0 }
            self.values.withLockedValue { values in
                values.sum += seconds
                values.count += 1
                if let index { values.buckets[index] += 1 }
            }
        }

        var value: Double { self.values.withLockedValue(\.sum) }

        var histogram: (buckets: [Int], count: Int, sum: Double) {
            self.values.withLockedValue { ($0.buckets, $0.count, $0.sum) }
        }
    }

    /// The upper bounds of the histograms, in seconds.
    static let bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

    private let series = NIOLockedValueBox<[Name: (kind: Kind, dimensions: [(String, String)], series: Series)]>([:])

    /// Creates an empty store.
    package init() {}

    private func series(_ kind: Kind, _ label: String, _ dimensions: [(String, String)]) -> Series {
        let name = Name(label: label, dimensions: Self.text(dimensions))
        return self.series.withLockedValue { all in
            if let found = all[name] { return found.series }
            let made = Series()
            all[name] = (kind, dimensions, made)
            return made
        }
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        self.series(.counter, label, dimensions)
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        self.series(.gauge, label, dimensions)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        self.series(.histogram, label, dimensions)
    }

    package func destroyCounter(_ handler: any CounterHandler) {}

    package func destroyRecorder(_ handler: any RecorderHandler) {}

    package func destroyTimer(_ handler: any TimerHandler) {}

    private static func text(_ dimensions: [(String, String)]) -> String {
        dimensions.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",")
    }

    /// Iterates over Unicode scalars, since a quotation mark with an accent, or CR LF, is a single `Character`.
    private static func escaped(_ value: String) -> String {
        value.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }

    /// Returns all series as text.
    package func text(with samples: [Sample] = []) -> String {
        var lines: [String: (kind: Kind, lines: [String])] = [:]
        for sample in samples {
            let line = Self.line(sample.name, Self.text(sample.dimensions), sample.value)
            lines[sample.name, default: (sample.kind, [])].lines.append(line)
        }
        for (name, (kind, _, series)) in self.series.withLockedValue({ $0 }) {
            let label = Self.name(name.label)
            switch kind {
            case .counter:
                lines[label + "_total", default: (kind, [])].lines
                    .append(Self.line(label + "_total", name.dimensions, series.value))
            case .gauge:
                lines[label, default: (kind, [])].lines.append(Self.line(label, name.dimensions, series.value))
            case .histogram:
                lines[label + "_seconds", default: (kind, [])].lines
                    .append(Self.histogram(label + "_seconds", name.dimensions, series))
            }
        }
        return lines.sorted { $0.key < $1.key }.map { Self.head($0, $1.kind) + $1.lines.sorted().joined() }.joined()
    }

    /// Returns the values of a counter by the values of its first two dimensions.
    func counts(of label: String) -> [String: [String: Int]] {
        self.series.withLockedValue { all in
            all.reduce(into: [:]) { counts, entry in
                let (name, (_, dimensions, series)) = entry
                guard name.label == label, dimensions.count > 1 else { return }
                counts[dimensions[0].1, default: [:]][dimensions[1].1] = Int(series.value)
            }
        }
    }

    /// Converts a label to a Prometheus name.
    private static func name(_ label: String) -> String {
        label.replacing(".", with: "_").replacing("-", with: "_")
    }

    private static func head(_ name: String, _ kind: Kind) -> String {
        let help = MetricHelp.texts[name].map { "# HELP \(name) \($0)\n" } ?? ""
        return help + "# TYPE \(name) \(kind.rawValue)\n"
    }

    private static func line(_ label: String, _ dimensions: String, _ value: Double) -> String {
        let number = Int64(exactly: value).map { "\($0)" } ?? "\(value)"
        return "\(label)\(dimensions.isEmpty ? "" : "{\(dimensions)}") \(number)\n"
    }

    private static func histogram(_ label: String, _ dimensions: String, _ series: Series) -> String {
        let (buckets, count, sum) = series.histogram
        let before = dimensions.isEmpty ? "" : dimensions + ","
        var text = ""
        var total = 0
        for (bound, bucket) in zip(Self.bounds, buckets) {
            total += bucket
            text += Self.line(label + "_bucket", before + "le=\"\(bound)\"", Double(total))
        }
        text += Self.line(label + "_bucket", before + "le=\"+Inf\"", Double(count))
        return text + Self.line(label + "_sum", dimensions, sum)
            + Self.line(label + "_count", dimensions, Double(count))
    }
}
