// SPDX-License-Identifier: Apache-2.0

import TokenStore

extension CommandFailure {
    /// Finds the exit code for a fault of a token table.
    init(_ error: TokenTableError) {
        let status: ExitStatus =
            switch error {
            case .missingFile, .notAFile, .cannotOpen: .noInput
            case .notADatabase, .corrupt, .noTokens, .noTimes, .notAFlag, .constraint: .dataError
            case .readOnly, .full: .ioError
            case .busy: .tryAgain
            case .missingTable, .notATable, .missingColumn, .generatedColumn, .takenColumn, .hiddenRowNumber, .name,
                .severalTopics, .fewTopics, .unknownTopics:
                .usage
            case .database: .software
            @unknown default: .software
            }
        self.init(status, "\(error)")
    }
}
